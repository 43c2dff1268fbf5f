"""Output for terminals: tables, YAML, JSON, and completion."""
