"""From rendered text to manifests: YAML with the template line of every field."""
