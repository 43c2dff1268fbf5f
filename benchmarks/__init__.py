"""How fast ssa-operator is, each figure beside a limit that was measured in the same run; `python -m benchmarks`."""
