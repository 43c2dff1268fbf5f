"""Failures are retried with growing delays."""
