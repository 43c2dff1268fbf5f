"""What an API server does to a new object, offline."""
