"""Why a parent is reconciled."""

from __future__ import annotations

from enum import IntFlag


class Cause(IntFlag):
    """Why a parent is reconciled. A parent may have several causes. A greater value is more urgent."""

    RESYNC_DUE = 1
    """A resync is due, and the budget of applies has not granted it yet."""
    RESYNC = 2
    """A resync is due, and the budget of applies has granted it."""
    FIRST_LIST = 4
    """The parent was in the first list, and its status has the current generation."""
    RETRY = 8
    """The last reconcile failed, or it set a time for the next one."""
    STATUS = 16
    """The last reconcile deferred its status, which has to be written."""
    TEMPLATE = 32
    """The parent's templates, their settings, a kind that they need, or an object that they look up changed."""
    CHILD = 64
    """A child of the parent changed."""
    PARENT = 128
    """The parent itself changed."""
    STATUS_OVERDUE = 256
    """The deferred status has waited for as long as it may."""


APPLY_ALL = Cause.PARENT | Cause.TEMPLATE | Cause.FIRST_LIST
"""With one of these causes, a reconcile applies every manifest, even if it is unchanged."""


STATUS_ONLY = Cause.STATUS | Cause.STATUS_OVERDUE
"""With these causes alone, the deferred status is written without a reconcile."""
