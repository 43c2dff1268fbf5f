"""The status says why a child is not ready: by its pods, and by its newest Warning Event."""
