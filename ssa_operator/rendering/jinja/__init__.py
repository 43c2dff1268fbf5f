"""The template language: the sandboxed environment, its filters and functions."""
