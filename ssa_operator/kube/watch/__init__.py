"""Reflectors, which list and watch, and the caches that they fill."""
