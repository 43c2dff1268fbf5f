"""The words and limits that a folder's settings and the rules of reconciles share."""

from __future__ import annotations

from enum import StrEnum


class AdoptPolicy(StrEnum):
    """Which objects without an owner the operator adopts."""

    ALWAYS = "Always"
    """All."""
    IN_NAMESPACE = "InNamespace"
    """Those in the parent's namespace: none that are cluster-scoped, or whose parent is."""
    NEVER = "Never"


MAX_CHILDREN = 1000
"""Children of one parent, unless the folder's settings allow more."""


MAX_DEPTH = 8
"""Parents above a parent, unless the folder's settings allow more. Operators that are built of resources of their own
(a cluster, its node pools, their machines) have three or four levels."""
