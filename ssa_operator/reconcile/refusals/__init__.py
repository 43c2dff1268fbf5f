"""Before the operator reports a refused apply or deletes anything, it compares the apply with the live object and its
managedFields.
"""
