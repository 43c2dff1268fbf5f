"""Converts parents between the versions of their CRD, by the templates in `_convert/`."""
