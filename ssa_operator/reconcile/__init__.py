"""One reconcile of one parent: observe, render, plan, act, report, publish.

The modules here are that line, and the values that travel along it. Each folder is a promise:

- `rules.py` decides: pure functions over values.
- `requests.py` asks the API server.

What the process remembers of each child is a row in `child_memory.py`. `promises.py` says what they learn from a
reconcile.
"""
