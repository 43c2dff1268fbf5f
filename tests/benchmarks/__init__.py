"""Benchmarks, most of them beside a limit that the same run measures; `python -m tests.benchmarks` lists them."""
