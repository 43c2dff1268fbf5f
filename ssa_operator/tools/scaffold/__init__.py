"""The output of `ssa-operator new`, as values: names, fields, a CRD, templates and an example. Nothing here does
I/O.
"""
