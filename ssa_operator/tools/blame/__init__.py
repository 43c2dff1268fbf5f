"""Who wrote each field of a child: a template line and its origin, or another manager."""
