"""The number of replicas that others set survives a recreation, a crash, and a template that stops writing it."""
