"""Compares ssa-operator with operators that users would otherwise write: `python -m tests.benchmarks peers`."""
