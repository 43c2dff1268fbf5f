"""The values in rendered text: their types, their provenance, line marks, and the limits of a render."""
