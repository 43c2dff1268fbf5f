"""Rollouts: a changed template set reaches the parents of a folder in waves, canaries first.

Promises:
- A folder without the setting `rollout` has none: a changed set reaches all parents at once, and costs no request.
- Each loaded set is a revision, which is kept in the operator's namespace.
- A parent that a rollout has not reached goes on being reconciled with the revision that it runs, which stands on it.
- A rollout stops at parents that were Ready and are not any more.
- An operator that is killed at any moment goes on where it was.

`rules.py` decides the waves, `revisions.py` are revisions as objects of the API server, `requests.py` reads and writes
these, `members.py` sees a parent as the rules do, `windows.py` says when waves may begin, `folder_rollout.py` follows
the rollout of one folder, and `driver.py` those of all running folders.
"""
