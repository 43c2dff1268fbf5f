"""What the API server requires of objects of built-in kinds beyond their schemas, as tables of constraints."""
