"""A folder of Jinja templates is an operator."""

__version__ = "0.1.0"
