"""A generated value is drawn once (`rendering/generated_values.py`). It outlives restarts, crashes and recreations, and
only a Secret holds it.
"""
