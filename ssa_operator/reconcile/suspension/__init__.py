"""A suspended parent is observed and reported, and nothing is applied or deleted."""
