"""Benchmarks of ssa-operator, each beside a limit that the same run measures; `python -m benchmarks`."""
