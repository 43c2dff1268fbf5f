"""The functions that a template can call: this table is where one is added.

Promises:
- A template sees the functions of `FUNCTIONS` and `QUESTIONS` and no other; a name that is not here is undefined and
  its use an error.
- A function that gives something random, or looks at the clock or at the machine, has no place here: two renders of
  the same parent must be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2.sandbox import safe_range
from jinja2.utils import Cycler, Joiner

VARIABLES = frozenset({"object", "metadata", "spec", "status", "name", "namespace", "labels", "annotations"})
"""What every template sees of its parent, imported and included ones too."""

CLUSTER_FUNCTIONS = frozenset({"child", "expired", "generated", "lookup", "lookup_all", "ready"})
"""What every template can ask; these functions belong to one render (see `inquiry`)."""

FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "cycler": Cycler,
    "dict": dict,
    "joiner": Joiner,
    "range": safe_range,
}

ACCEPTS_TRACKED = "takes_observed"
"""The attribute of a function that is given values of the cluster as they are, with their origins."""

REMOVED: Mapping[str, str] = {
    "do": "values can't be changed in a template, so there is nothing to do; write list + [item] or "
    "dict(mapping, **other); to accumulate in a loop, use namespace()",
    "lipsum": "lipsum gives another text each time, so every render would be a change; write a text out",
    "random": "random gives another item each time, so every render would be a change; use first, or an index",
}
"""Names of Jinja's own that are left out on purpose, and why."""
