"""ssa-operator beside the operators that people would otherwise write: `python -m benchmarks.peers`."""
