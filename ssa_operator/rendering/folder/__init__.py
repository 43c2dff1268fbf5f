"""The templates folder on disk: its files, its settings, and hot reload."""
