"""What failed is tried again, with growing delays."""
