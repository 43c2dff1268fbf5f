"""The moment that a render sees, also while the event loop goes on beside a render in a thread.

Promises:
- A render sees the caches at one moment. What a render in a thread asks later is answered as it is then, and `is_one`
  finds out whether all that it read was the same then.
- Only the event loop's thread reads the caches.
- The versions of what a render in a thread looked up are those that it saw, so that no change meanwhile is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from ssa_operator.informers.lookup_index import AnswerVersion, LookupQuery
from ssa_operator.objects.cluster_view import ClusterView, RecordedView, ViewCall, answer_now
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.parent_view import ParentView

CallSoon = Callable[[Callable[[], None]], object]
"""Has the event loop's thread call a function."""


class RenderMoment:
    """The moment of one render. `look` gives the view of the caches as they are when it is called.

    `view` is the view of the last render that began.
    """

    def __init__(self, look: Callable[[], ParentView]) -> None:
        self._look = look
        self._record: RecordedView | None = None
        self._kept = False
        self._versions: dict[LookupQuery, AnswerVersion] = {}
        self._lives: dict[Identity, LiveObject | None] = {}
        self.view: ParentView

    def keep(self) -> None:
        """Have the further renders see what the last one saw."""
        self._kept = True

    def begin(self) -> RecordedView:
        """What a render sees that begins now, and that ends before the event loop goes on."""
        if self._record is None or not self._kept:
            self.view = self._look()
            self._record = RecordedView(self.view)
            self._versions, self._lives = {}, {}
        return self._record

    def begin_in_thread(self, call_soon: CallSoon) -> RecordedView:
        """What a render in a thread sees that begins now. What an interrupted one asked is answered now."""
        questions = () if self._record is None or self._kept else tuple(self._record.answers)
        record = self.begin()
        for question in questions:
            record.answers[question] = self._answer(self.view, question)

        def ask(view: ClusterView, question: ViewCall) -> Any:
            found: Future[Any] = Future()

            def answer() -> None:
                try:
                    found.set_result(self._answer(view, question))
                except BaseException as error:  # noqa: BLE001 - the thread raises it
                    found.set_exception(error)

            call_soon(answer)
            return found.result()

        return RecordedView(self.view, record.answers, ask)

    def _answer(self, view: Any, question: ViewCall) -> Any:
        """The answer of the caches, and the version of what a template looks up."""
        what, asked = question[:2]
        if what == "answer":
            self._versions[asked] = view.version(asked)
        elif what == "lookup":
            self._lives[asked] = view.objects.get(asked)
        return answer_now(view, question)

    def is_one(self) -> bool:
        """Whether the caches give now all answers that the last render got."""
        if self._kept or self._record is None:
            return True
        now = self._look()
        return all(
            now.version(question[1]) == self._versions.get(question[1])
            if question[0] == "answer"
            else answer_now(now, question) == answer
            for question, answer in self._record.answers.items()
        )

    def versions(self, current: Mapping[LookupQuery, AnswerVersion]) -> Mapping[LookupQuery, AnswerVersion]:
        """The versions of answers that the last render saw; `current` are the present ones of its queries."""
        return {query: self._versions.get(query, version) for query, version in current.items()}

    def watched(self, identity: Identity) -> LiveObject | None:
        """An object with the operator's label, as the last render saw it."""
        return self._lives[identity] if identity in self._lives else self.view.objects.get(identity)
