"""One module per feature: its rules, and the state that the operator keeps for it between two reconciles."""
