"""A child that is no longer rendered is deleted only if that is proven right. A suspicious template set holds the
prune.
"""
