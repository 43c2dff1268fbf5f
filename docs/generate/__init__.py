"""Writes the parts of the documentation that follow from the program: the commands, and what they print."""
