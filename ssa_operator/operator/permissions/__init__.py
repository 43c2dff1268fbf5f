"""The permissions that templates need: for roles, and for a review while the operator runs.

No permission that the templates do not need is asked for. A missing one is reported with the template line.
"""
