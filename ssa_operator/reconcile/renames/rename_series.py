"""The successive new names of the children of one kind."""

from __future__ import annotations

from ssa_operator.objects.identity import Identity
from ssa_operator.reconcile.feedback_loops.series import ChangeSeries


class RenameSeries(ChangeSeries, frozen=True, kw_only=True):
    """The successive new names of a parent's children of one kind."""

    newest: Identity
    """The child that was created last."""

    @property
    def text(self) -> str:
        """The message about the series."""
        return (
            f"the templates give a {self.newest.kind} a new name each time, last {self.newest}, without a change of "
            "the parent or its templates; the operator creates the next one with backoff"
        )
