"""How a process starts, logs, stops and reports what holds it up."""
