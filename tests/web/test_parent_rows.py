"""The rows of parents, and the searches over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from ssa_operator.kube.watch.cache import Cache, Listener
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.readiness import conditions_of
from ssa_operator.reconcile.parent_state import Parents, ParentState
from ssa_operator.reconcile.status.report import Report
from ssa_operator.reconcile.status.status_history import StatusHistory
from ssa_operator.reconcile.status.verdict import ReadyReason, Verdict
from ssa_operator.tools.tree.tree_view import entry, urgency
from ssa_operator.web.parent_rows import Filter, ParentRow, ParentRows

FOLDER = "echoes.example.com"


def parent(
    name: str, ready: str = "True", reason: str = "Ready", namespace: str = "one", **more: Any
) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "reason": reason, "message": more.pop("message", "")}]
    conditions += [{"type": kind, "status": "True"} for kind in more.pop("types", ())]
    return {
        "apiVersion": "example.com/v1",
        "kind": "Echo",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"},
        "status": {"conditions": conditions, "resources": more.pop("resources", [])},
    }


class Informer:
    """The parents of one folder, as an informer has them."""

    def __init__(self, *bodies: dict[str, Any]) -> None:
        self.cache = Cache()
        self.states: dict[str, ParentState] = {}
        self.listeners: list[Callable[[LiveObject, ParentState], None]] = []
        self.write(*bodies)

    def write(self, *bodies: dict[str, Any]) -> None:
        for body in bodies:
            version = str(self.cache.changes + 2)
            self.cache.written(LiveObject.of({**body, "metadata": {**body["metadata"], "resourceVersion": version}}))

    def __iter__(self) -> Iterator[LiveObject]:
        return iter(self.cache)

    def state(self, live: LiveObject) -> ParentState:
        return self.states.get(live.uid, ParentState())

    def find(self, namespace: str, name: str) -> LiveObject | None:
        return self.cache.get(namespace, name)

    def report(self, name: str, status: Mapping[str, Any]) -> None:
        """A reconcile of a parent ends with a status that its kind has no place for."""
        live = self.cache.get("one", name)
        assert live is not None
        verdict = Verdict(ready=False, stalled=False, reason=ReadyReason.PROGRESSING, message="")
        report = Report(status=status, verdict=verdict, children=(), complete=True)
        self.states[live.uid] = ParentState(status=StatusHistory(report=report))
        for listener in self.listeners:
            listener(live, self.states[live.uid])

    def listen_to_states(self, listener: Callable[[LiveObject, ParentState], None]) -> None:
        self.listeners.append(listener)

    def listen(self, listener: Listener, *, own_writes: bool = False) -> None:
        self.cache.listen(listener, own_writes=own_writes)


def rows_of(informer: Informer) -> ParentRows:
    rows = ParentRows({FOLDER: cast("Parents", informer)})
    rows.follow()
    return rows


def names(rows: list[ParentRow]) -> list[str]:
    return [row.name for row in rows]


def test_what_needs_a_change_comes_first_and_what_is_ready_last() -> None:
    rows = rows_of(
        Informer(
            parent("well"),
            parent("starts", "False", "Progressing", types=["Suspended"]),
            parent("broken", "False", "RenderFailed", types=["Stalled"]),
            {**parent("new"), "status": {}},
        )
    )
    assert names(rows.select(Filter(), {FOLDER})) == ["broken", "new", "starts", "well"]
    assert rows.counts(FOLDER) == {"failed": 1, "working": 1, "unknown": 1, "ready": 1}
    assert rows.flagged({FOLDER}) == (1, 0)
    assert names(rows.select(Filter(group="unready"), {FOLDER})) == ["broken", "new", "starts"]


def test_rows_have_the_order_in_which_status_prints_parents() -> None:
    failed = [{"kind": "Job", "name": "a", "state": "Failed"}]
    informer = Informer(
        parent("d", "False", "Progressing"),
        parent("c", "False", "Progressing", resources=failed),
        parent("b", "False", "ApplyFailed", types=["Stalled"]),
        parent("a"),
        {**parent("e"), "status": {}},
        {**parent("f"), "status": {"resources": failed}},
    )
    entries = [
        entry(live, {"conditions": conditions_of(live.body), "resources": live.body["status"].get("resources", [])})
        for live in informer
    ]
    printed = [each["name"] for each in sorted(entries, key=urgency)]
    assert names(rows_of(informer).select(Filter(), {FOLDER})) == printed


def test_a_parent_whose_status_has_no_place_for_conditions_is_judged_by_the_last_report() -> None:
    namespace = {**parent("web"), "kind": "Namespace", "status": {"phase": "Active"}}
    informer = Informer(namespace)
    rows = rows_of(informer)
    (row,) = rows.select(Filter(), {FOLDER})
    assert (row.group, row.children) == ("unknown", 0)
    version, reported = rows.version, parent("web", "False", "Progressing", message="Job a runs")["status"]
    informer.report("web", {**reported, "resources": [{"kind": "Job", "name": "a", "state": "InProgress"}]})
    assert rows.version > version
    (row,) = rows.select(Filter(), {FOLDER})
    assert (row.group, row.reason, row.message, row.children) == ("working", "Progressing", "Job a runs", 1)
    # A change of the parent keeps it.
    informer.write({**namespace, "metadata": {**namespace["metadata"], "labels": {"tier": "db"}}})
    (row,) = rows.select(Filter(selector="tier=db"), {FOLDER})
    assert row.reason == "Progressing"
    assert rows.select(Filter(selector="tier!=db"), {FOLDER}) == []


def test_a_search_finds_words_of_names_and_messages_in_any_order() -> None:
    rows = rows_of(
        Informer(parent("web", "False", "Waiting", message="needs Secret db"), parent("db", namespace="two"))
    )
    assert names(rows.select(Filter(text="SECRET web"), {FOLDER})) == ["web"]
    assert names(rows.select(Filter(text="two/db"), {FOLDER})) == ["db"]
    assert rows.select(Filter(text="nothing"), {FOLDER}) == []
    assert names(rows.select(Filter(namespace="two"), {FOLDER})) == ["db"]


def test_a_folder_that_the_reader_may_not_list_has_no_rows() -> None:
    rows = rows_of(Informer(parent("web")))
    assert rows.select(Filter(), frozenset()) == []
    assert rows.namespaces(frozenset()) == []


def test_a_row_follows_the_operators_own_writes() -> None:
    informer = Informer(parent("web", "False", "Progressing"))
    rows = rows_of(informer)
    version = rows.version
    informer.write(parent("web", "False", "Progressing"))
    assert rows.version == version
    informer.write(parent("web"))
    assert rows.version > version
    (row,) = rows.select(Filter(), {FOLDER})
    assert row.group == "ready"


def test_a_waiting_page_is_told_of_each_change_of_its_parent() -> None:
    informer = Informer(parent("web"), parent("other"))
    rows = rows_of(informer)
    with rows.changes("uid-web") as changed:
        informer.write(parent("other", "False"))
        assert not changed.is_set()
        informer.write(parent("web"))
        assert changed.is_set()


def test_a_row_counts_children_and_names_who_changes_them() -> None:
    children = [{"kind": "Job", "name": "a", "state": "Current"}, {"kind": "Job", "name": "b", "state": "Waiting"}]
    web = parent("web", "False", "Conflict", types=["Stalled", "Suspended"], resources=children)
    (row,) = rows_of(Informer(web)).select(Filter(), {FOLDER})
    assert (row.current, row.children, row.suspended, row.conflict, row.group) == (1, 2, True, True, "failed")
