"""What `ssa-operator new` writes, as values: names, fields, a CRD, templates and an example. Nothing here does I/O."""
