"""The words and limits that a folder's settings and the rules of reconciles share."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class AdoptPolicy(StrEnum):
    """Which objects without an owner the operator adopts."""

    ALWAYS = "Always"
    """All."""
    IN_NAMESPACE = "InNamespace"
    """Objects in the parent's namespace: no cluster-scoped objects, and none for cluster-scoped parents."""
    NEVER = "Never"


MAX_CHILDREN = 1000
"""Children of one parent, unless the folder's settings allow more."""


MAX_DEPTH = 8
"""Parents above a parent, unless the folder's settings allow more. Operators that are built of resources of their own
(a cluster, its node pools, their machines) have three or four levels.
"""


class ParentSettings(Struct, frozen=True, kw_only=True):
    """What a folder's settings say of its parents and their children."""

    cluster_scope: bool = False
    """Whether children may be outside of the parent's namespace."""
    adopt: AdoptPolicy = AdoptPolicy.IN_NAMESPACE
    """Which objects without an owner the operator adopts."""
    max_children: int = MAX_CHILDREN
    """The maximum number of children of a parent."""
    max_depth: int = MAX_DEPTH
    """The maximum number of parents above a parent that creates children."""
