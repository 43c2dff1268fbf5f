"""One reconcile of one parent: observe, render, plan, act, report, publish.

The modules here are that line, the values that travel along it, and the promises, some of which are folders. A plain
`def` decides, an `async def` asks the API server.

What the process remembers of each child is a row in `child_memory.py`. `promises.py` says what they learn from a
reconcile.
"""
