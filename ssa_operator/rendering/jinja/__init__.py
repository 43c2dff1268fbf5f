"""The template language: the sandboxed Jinja environment, its filters and its functions."""
