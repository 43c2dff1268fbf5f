"""The secret values that the operator knows, and reports without them."""
