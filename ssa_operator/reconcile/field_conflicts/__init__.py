"""A field that another manager changes back is named. The operator reverts it ever more slowly, and never stops."""
