"""An object that exists before its manifest is adopted only if the folder or the manifest says so, with the fields of
its former managers.
"""
