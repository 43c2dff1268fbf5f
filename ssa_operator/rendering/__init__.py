"""Renders a folder of templates for one parent to documents. The templates folder is the only input or output."""
