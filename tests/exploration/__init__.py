"""Plays sequences of changes on parents, and checks the resulting children."""
