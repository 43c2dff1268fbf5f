"""An object belongs to one parent, and another parent doesn't apply it."""
