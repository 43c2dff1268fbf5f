"""The operator names a field that another manager keeps changing. It reverts the field ever more slowly, and never
stops.
"""
