"""A parent that is deleted without its children leaves all of them."""
