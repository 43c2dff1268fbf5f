"""A child that is not ready says why: by its pods, and by its newest Warning Event."""
