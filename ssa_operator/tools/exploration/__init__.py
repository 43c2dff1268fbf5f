"""Plays sequences of changes on parents, and checks what becomes of their children."""
