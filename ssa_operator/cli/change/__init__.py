"""Commands that show what an apply would change, and that apply."""
