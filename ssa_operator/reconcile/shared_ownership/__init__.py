"""Several parents render the same object, and each is an owner (`ssa-operator.dev/apply: Shared`)."""
