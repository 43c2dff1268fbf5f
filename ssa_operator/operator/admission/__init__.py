"""The validating webhook that refuses parents whose templates fail."""
