"""One module a feature: the rule, and what the operator remembers for it between two reconciles."""
