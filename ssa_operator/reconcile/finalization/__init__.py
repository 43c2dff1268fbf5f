"""A parent that is deleted takes its children with it: hooks first, then the inventory in the order of dependencies.

The finalizer goes when nothing is left that Kubernetes does not collect. If a deletion can never end by itself, the
operator names the command that ends it.
"""
