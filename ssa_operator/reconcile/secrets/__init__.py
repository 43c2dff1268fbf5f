"""The content of a Secret is in no status, Event, log line, diff or file."""
