"""A resync repeats all applies of a parent, without a render if possible. Manifests that are proven unchanged are left
out.
"""
