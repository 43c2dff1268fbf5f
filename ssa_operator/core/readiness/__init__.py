"""Whether an object is ready: one table of rules by kind, and what the pods of a workload say."""
