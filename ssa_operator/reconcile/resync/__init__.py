"""A resync repeats all applies of a parent, without a render if possible. What is proven unchanged is left out."""
