"""Renders a parent a second time and refuses each document that differs.

Promises:
- A document that differs in a second render of the same input, or is missing there, becomes a problem with the template
  line of the difference. All other documents stay.
- Generated values don't count as a difference: if they are new, the check compares two renders with the same numbers
  in place of random ones.
- The check costs one more render, or three if generated values are new. So the operator checks `CHECKED_PARENTS`
  parents of new templates, which all run the same ones, and later one in `CHECKED_EDITS` that their users changed. A
  difference begins the count again, so that templates with a fault are checked for every parent.

The check can't find values that differ only between processes. Templates can't write such values: they have no clock,
no randomness and no sets, and a value that only Python's repr() can write is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ssa_operator.objects.cluster_view import ClusterView, RecordedView
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.render_result import Document, Rendered, RenderProblem
from ssa_operator.objects.source_location import field_text
from ssa_operator.rendering.generated_values import difference
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.render import render

if TYPE_CHECKING:
    from ssa_operator.rendering.folder.loaded_folders import Folder

_REMEDY = "a manifest must always be the same; remove the expression whose result varies"


CHECKED_PARENTS = 10
"""The parents in a row without a difference after which the templates of a folder are trusted."""

CHECKED_EDITS = 50
"""One in this number of edited parents is checked although its templates are trusted."""


_REMEMBERED = 1000
"""Versions of templates whose checks are counted."""


class TrustedTemplates:
    """The templates that were checked for enough parents. Several versions of a folder are in use during a rollout."""

    def __init__(self) -> None:
        self._checked: dict[str, int] = {}
        """How many parents were checked in a row without a difference, by the digest of their templates."""
        self._edits = 0
        """The edited parents of trusted templates so far."""

    def has(self, folder: Folder, *, edited: bool) -> bool:
        """Whether a parent of these templates needs no check."""
        if self._checked.get(folder.digest, 0) < CHECKED_PARENTS:
            return False
        self._edits += edited
        return not edited or bool(self._edits % CHECKED_EDITS)

    def learn(self, folder: Folder, *, same: bool) -> None:
        """A parent was checked, and its renders were the same or not."""
        count = self._checked.pop(folder.digest, 0)
        self._checked[folder.digest] = count + 1 if same else 0
        if len(self._checked) > _REMEMBERED:
            del self._checked[next(iter(self._checked))]


def verified(
    templates: Templates | Folder,
    parent: Mapping[str, Any],
    cluster: ClusterView,
    rendered: Rendered,
    *,
    built_in_readiness: bool = False,
) -> Rendered:
    """The parent's render without the documents that differ in another render against the same cluster view."""

    def again(view: ClusterView) -> Rendered:
        return render(templates, parent, view, built_in_readiness=built_in_readiness)

    if not rendered.documents:
        return rendered
    found = dict(_problems(rendered.documents, again(cluster).documents))
    if found and rendered.generated:
        one, other = (again(_FixedNumbers(cluster)).documents for _ in range(2))
        found = dict(_problems(one, other))
    if not found:
        return rendered
    documents = tuple(document for at, document in enumerate(rendered.documents) if at not in found)
    return replace(rendered, documents=documents, problems=(*rendered.problems, *found.values()))


def _problems(documents: Sequence[Document], others: Sequence[Document]) -> Iterator[tuple[int, RenderProblem]]:
    """A problem for each document that differs from the others, by its position."""
    unmatched: dict[Identity, list[Document]] = {}
    for other in others:
        unmatched.setdefault(other.identity, []).append(other)
    for at, document in enumerate(documents):
        identity = document.identity
        same = unmatched.get(identity)
        if not same:
            message = f"the document is not there in each render of the same input; {_REMEDY}"
            yield at, RenderProblem(message, document.location, (identity,))
            continue
        body = same.pop(0).body
        # The repr shows order and types, too, in a tenth of the time of `difference`.
        path = difference(document.body, body) if repr(document.body) != repr(body) else None
        if path is not None:
            what = field_text(path) or "the document"
            message = f"{what} is another one in each render of the same input; {_REMEDY}"
            yield at, RenderProblem(message, document.location_of(path), (identity,))


class _FixedNumbers(RecordedView, frozen=True):
    """A cluster view whose random numbers are always the same, from which a render makes different values."""

    def random(self, _: int, /) -> int:
        return 0
