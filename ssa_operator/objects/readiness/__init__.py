"""Whether an object is ready: one table of rules by kind, and the failures of a workload's pods."""
