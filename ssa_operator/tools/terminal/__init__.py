"""What a terminal shows: tables, YAML, JSON, and completion."""
