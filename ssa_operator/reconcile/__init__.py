"""One reconcile of one parent: observe, render, plan, act, report, publish.

The modules here are that line, and the values that travel along it. Each folder is a promise:

- `rules.py` decides: pure functions over values.
- `memory.py` is what the process remembers of a parent for the promise: frozen values.
- `requests.py` asks the API server.
"""
