"""A generated value is drawn once. It outlives restarts, crashes and recreations, and only a Secret holds it."""
