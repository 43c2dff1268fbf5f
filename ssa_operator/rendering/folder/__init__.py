"""Reads the templates folder: its files, its settings, and its changes."""
