"""What a cache shows of a watch, and objects found by their labels."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ssa_operator.kube.watch.cache import Cache, Listener
from ssa_operator.kube.watch.label_index import INDEXES_LIMIT
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from tests.instruction_counts import instructions
from tests.kube.fakes import live

Told = list[tuple[str, str]]


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def cache(told: Told) -> Cache:
    return listening(told)


def teller(told: Told) -> Listener:
    return lambda old, new: told.append((old.resource_version if old else "", new.resource_version if new else ""))


def listening(told: Told) -> Cache:
    made = Cache()
    made.listen(teller(told))
    return made


def version(cache: Cache, name: str) -> str:
    found = cache.get("default", name)
    return found.resource_version if found else ""


def names(objects: Iterator[LiveObject] | tuple[LiveObject, ...]) -> set[str]:
    return {each.identity.name for each in objects}


def test_an_own_write_that_the_watch_has_delivered_already_is_in_memory_once(cache: Cache) -> None:
    with cache.writing("default", "a"):
        watched = live("a", 1)
        cache.upsert(watched)
        assert cache.written(live("a", 1)) is watched
    answer = live("a", 2)
    assert cache.written(answer) is answer
    assert cache.get("default", "a") is answer


def test_a_listener_gets_each_event_once_with_the_object_before_it(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", 1))
    cache.upsert(live("a", 2))
    cache.upsert(live("a", 2))
    cache.upsert(live("a", 1))
    cache.remove(live("a", 3))
    cache.remove(live("a", 3))
    assert told == [("", "1"), ("1", "2"), ("2", "")]
    assert len(cache) == 0


def test_a_list_notifies_of_added_changed_and_vanished_objects(cache: Cache, told: Told) -> None:
    for each in (live("a", 1), live("b", 2), live("c", 3)):
        cache.upsert(each)
    told.clear()
    cache.replace([live("a", 1), live("b", 5), live("d", 6)], "6", mark=cache.mark())
    assert sorted(told) == [("", "6"), ("2", "5"), ("3", "")]
    assert names(iter(cache)) == {"a", "b", "d"}


def test_a_list_by_another_schema_notifies_of_the_objects_that_it_shows_with_other_fields(
    cache: Cache, told: Told
) -> None:
    former, unchanged = live("a", 1), live("b", 2)
    cache.upsert(former)
    cache.upsert(unchanged)
    told.clear()
    shown = LiveObject.of({**former.body, "data": {"new": "field"}})
    cache.replace([shown, live("b", 2)], "3", mark=cache.mark())
    assert told == []
    cache.replace([former, live("b", 2)], "3", mark=cache.mark())
    cache.replace([shown, live("b", 2)], "3", mark=cache.mark(), changes_schema=True)
    assert told == [("1", "1")]
    assert cache.get("default", "a") is shown


def test_a_list_of_one_namespace_leaves_the_others_alone(cache: Cache) -> None:
    cache.upsert(live("a", 1, namespace="one"))
    cache.upsert(live("b", 1, namespace="two"))
    cache.replace([], "2", mark=cache.mark(), namespace="one")
    assert names(iter(cache)) == {"b"}


def test_a_namespace_that_is_no_longer_watched_leaves_the_cache_and_notifies_nobody(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", 1, namespace="one"))
    cache.written(live("w", 2, namespace="one"))
    cache.upsert(live("b", 1, namespace="two"))
    told.clear()
    cache.forget("one")
    assert (names(iter(cache)), told) == ({"b"}, [])
    cache.replace([live("a", 1, namespace="one")], "3", mark=cache.mark(), namespace="one")
    assert (names(iter(cache)), told) == ({"a", "b"}, [("", "1")])


def test_a_list_after_a_restore_of_etcd_applies_although_its_versions_are_lower(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", 100))
    cache.written(live("b", 101))
    cache.replace([live("a", 7)], "8", mark=cache.mark())
    assert (version(cache, "a"), version(cache, "b")) == ("7", "")


def test_an_own_write_is_read_at_once_and_its_echo_notifies_nobody(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", 1))
    cache.written(live("a", 2))
    assert version(cache, "a") == "2"
    cache.upsert(live("a", 2))
    assert told == [("", "1")]
    cache.upsert(live("a", 3))
    assert told[1:] == [("2", "3")]


def test_a_listener_gets_a_foreign_change_just_before_an_own_write(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", 1))
    cache.written(live("a", 3))
    cache.upsert(live("a", 2))
    assert version(cache, "a") == "3"
    cache.upsert(live("a", 3))
    assert told == [("", "1"), ("1", "2")]


def test_the_late_echoes_of_several_own_writes_call_no_listener(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", 1))
    for number in (2, 3, 5):
        cache.written(live("a", number))
    for number in (2, 3, 4, 5):
        cache.upsert(live("a", number))
    assert told == [("", "1"), ("3", "4")]
    cache.upsert(live("a", 6))
    assert told[2:] == [("5", "6")]


def test_an_answer_that_comes_after_its_event_changes_nothing(cache: Cache) -> None:
    cache.upsert(live("a", 5))
    cache.written(live("a", 4))
    assert version(cache, "a") == "5"


def test_an_answer_that_comes_after_the_deletion_does_not_bring_the_object_back(cache: Cache) -> None:
    cache.upsert(live("a", 5))
    cache.remove(live("a", 6))
    cache.advance("6")
    cache.written(live("a", 5))
    assert version(cache, "a") == ""


def test_a_list_older_than_an_own_write_does_not_remove_it(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", 1))
    mark = cache.mark()
    cache.written(live("a", 9))
    cache.written(live("new", 10))
    cache.replace([live("a", 7)], "8", mark=mark)
    assert (version(cache, "a"), version(cache, "new")) == ("9", "10")
    assert told == [("", "1"), ("1", "7")]
    cache.upsert(live("a", 9))
    cache.upsert(live("new", 10))
    assert told == [("", "1"), ("1", "7")]


def test_a_list_newer_than_an_own_write_replaces_it(cache: Cache) -> None:
    mark = cache.mark()
    cache.written(live("a", 9))
    cache.written(live("gone", 9))
    cache.replace([live("a", 11)], "12", mark=mark)
    assert (version(cache, "a"), version(cache, "gone")) == ("11", "")


def test_an_own_delete_removes_the_object_at_once_and_late_events_do_not_restore_it(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", 1))
    cache.deleted(live("a", 1))
    assert version(cache, "a") == ""
    cache.upsert(live("a", 2))
    assert version(cache, "a") == ""
    cache.remove(live("a", 3))
    assert told == [("", "1"), ("2", "")]


def test_an_object_recreated_after_an_own_delete_is_seen(cache: Cache) -> None:
    cache.upsert(live("a", 1))
    cache.deleted(live("a", 1))
    cache.upsert(live("a", 4, uid="another"))
    assert version(cache, "a") == "4"


def test_a_list_from_before_an_own_delete_does_not_restore_the_object(cache: Cache) -> None:
    cache.upsert(live("a", 1))
    mark = cache.mark()
    cache.deleted(live("a", 1))
    cache.replace([live("a", 1)], "1", mark=mark)
    assert version(cache, "a") == ""
    cache.replace([live("a", 1)], "5", mark=cache.mark())
    assert version(cache, "a") == "1"


def test_the_late_deletion_event_of_a_recreated_object_removes_only_the_old_one(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", 1, uid="old"))
    cache.written(live("a", 5, uid="new"))
    cache.remove(live("a", 3, uid="old"))
    assert version(cache, "a") == "5"
    cache.upsert(live("a", 5, uid="new"))
    assert told == [("", "1"), ("1", "")]


def test_during_a_write_foreign_changes_are_deferred_and_its_echo_is_dropped(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", 1))
    cache.upsert(live("b", 1))
    told.clear()
    with cache.writing("default", "a"):
        cache.upsert(live("a", 2))  # somebody else's
        cache.upsert(live("a", 3))  # ours, before the answer
        cache.upsert(live("b", 4))
        assert told == [("1", "4")]
        cache.written(live("a", 3))
    assert told == [("1", "4"), ("1", "2")]


def test_a_foreign_change_that_the_answer_to_a_write_without_effect_shows_is_reported_once(
    cache: Cache, told: Told
) -> None:
    cache.upsert(live("a", 1))
    # The answer before the event, and the event before the answer.
    with cache.writing("default", "a"):
        cache.written(live("a", 2), changed=False)
    assert version(cache, "a") == "2"
    cache.upsert(live("a", 2))
    with cache.writing("default", "a"):
        cache.upsert(live("a", 3))
        cache.written(live("a", 3), changed=False)
    assert told == [("", "1"), ("1", "2"), ("2", "3")]


def test_a_failed_write_hides_no_change(cache: Cache, told: Told) -> None:
    def write() -> None:
        with cache.writing("default", "a"):
            cache.upsert(live("a", 1))
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        write()
    assert told == [("", "1")]


def test_a_listener_for_own_writes_gets_them(cache: Cache) -> None:
    told: Told = []
    cache.listen(teller(told), own_writes=True)
    cache.written(live("a", 1))
    cache.upsert(live("a", 1))
    cache.deleted(live("a", 1))
    assert told == [("", "1"), ("1", "")]


def test_a_listener_for_own_writes_gets_one_whose_echo_comes_before_its_answer(cache: Cache) -> None:
    told: Told = []
    cache.listen(teller(told), own_writes=True)
    cache.upsert(live("a", 1))
    with cache.writing("default", "a"):
        cache.upsert(live("a", 2))  # somebody else's
        cache.upsert(live("a", 3))
        cache.written(live("a", 3))
    with cache.writing("default", "a"):
        cache.written(live("a", 4))
        cache.upsert(live("a", 4))
    assert told == [("", "1"), ("1", "2"), ("2", "3"), ("3", "4")]


def test_children_are_found_by_their_parent_wherever_they_came_from(cache: Cache) -> None:
    labels = {PARENT_UID_LABEL: "p"}
    cache.upsert(live("a", 1, labels=labels))
    cache.written(live("b", 2, labels=labels))
    cache.upsert(live("c", 3))
    assert names(cache.by_parent("p")) == {"a", "b"}
    cache.upsert(live("a", 4, labels={PARENT_UID_LABEL: "q"}))
    assert names(cache.by_parent("p")) == {"b"}
    assert names(cache.by_parent("q")) == {"a"}
    cache.deleted(live("b", 2))
    cache.remove(live("a", 5, labels=labels))
    assert cache.by_parent("p") == cache.by_parent("q") == cache.by_parent("never") == ()


def test_listeners_see_the_cache_as_it_is_after_the_change(cache: Cache) -> None:
    lengths: list[int] = []
    cache.listen(lambda *_: lengths.append(len(cache)))
    cache.replace([live("a", 1), live("b", 2)], "2", mark=cache.mark())
    assert lengths == [2, 2]


def test_a_listener_that_fails_does_not_keep_the_others_from_the_change(told: Told) -> None:
    def fail(old: LiveObject | None, new: LiveObject | None) -> None:
        raise ValueError("mine")

    cache = Cache()
    cache.listen(fail)
    cache.listen(teller(told))
    with pytest.raises(ValueError, match="mine"):
        cache.replace([live("a", 1), live("b", 2)], "2", mark=cache.mark())
    assert sorted(told) == [("", "1"), ("", "2")]


def test_versions_that_are_not_numbers_are_compared_for_equality(cache: Cache, told: Told) -> None:
    cache.upsert(live("a", "x"))
    cache.upsert(live("a", "x"))
    cache.written(live("a", "z"))
    cache.upsert(live("a", "y"))
    assert version(cache, "a") == "z"
    cache.upsert(live("a", "z"))
    cache.upsert(live("a", "w"))
    assert version(cache, "a") == "w"
    cache.remove(live("a", "v"))
    assert told == [("", "x"), ("x", "y"), ("z", "w"), ("w", "")]


# Histories: what a server goes through, in one order; and the watch, lists and answers that tell of it, in any.

OURS, FOREIGN, DELETE, SAME = "ours", "foreign", "delete", "ours without effect"
LIST, ANSWER, DELIVER = "list", "answer", "deliver"
BEGIN, ARRIVE = "a list begins", "the list arrives"


class Server:
    """One object's history, told to a cache by a watch that lags behind and by the answers to our writes."""

    def __init__(self) -> None:
        self.told: Told = []
        self.cache = listening(self.told)
        self.version = 0
        self.generation = 0
        self.now: LiveObject | None = None
        self.events: list[tuple[str, LiveObject]] = []
        self.answers: list[tuple[LiveObject, bool]] = []
        self.foreign: set[str] = set()
        self.listing: tuple[list[LiveObject], str, int] | None = None
        """The items, the resourceVersion and the mark of the list that is under way: no watch runs meanwhile."""

    def happens(self, what: str) -> None:
        if what in (OURS, FOREIGN):
            self.version += 1
            self.now = live("a", self.version, uid=f"u{self.generation}")
            self.events.append(("MODIFIED", self.now))
            if what == OURS:
                self.answers.append((self.now, True))
            else:
                self.foreign.add(str(self.version))
        elif what == SAME and self.now is not None:
            self.answers.append((self.now, False))
        elif what == DELETE and self.now is not None:
            self.version += 1
            self.events.append(("DELETED", live("a", self.version, uid=self.now.uid)))
            self.now = None
            self.generation += 1
        elif what == LIST:
            self.happens(BEGIN)
            self.happens(ARRIVE)
        elif what == BEGIN and self.listing is None:
            self.events.clear()
            self.listing = [self.now] if self.now else [], str(self.version), self.cache.mark()
        elif what == ARRIVE and self.listing is not None:
            items, resource_version, mark = self.listing
            self.listing = None
            self.cache.replace(items, resource_version, mark=mark)
        elif what == ANSWER and self.answers:
            answer, changed = self.answers.pop(0)
            self.cache.written(answer, changed=changed)
        elif what == DELIVER and self.events and self.listing is None:
            kind, each = self.events.pop(0)
            (self.cache.remove if kind == "DELETED" else self.cache.upsert)(each)
            self.cache.advance(each.resource_version)

    def catch_up(self) -> None:
        """The list, all answers and all events arrive."""
        while self.events or self.answers or self.listing:
            for what in (ARRIVE, ANSWER, DELIVER):
                self.happens(what)


HAPPENINGS = (OURS, FOREIGN, DELETE, LIST, ANSWER, DELIVER, DELIVER)

steps = st.lists(st.sampled_from(HAPPENINGS), max_size=30)

steps_with_the_same = st.lists(st.sampled_from((*HAPPENINGS, SAME, SAME, BEGIN, ARRIVE)), max_size=30)


@given(steps_with_the_same)
def test_the_cache_converges_to_the_server_in_any_order_of_events_and_answers(history: list[str]) -> None:
    server = Server()
    for what in history:
        server.happens(what)
    server.catch_up()
    assert version(server.cache, "a") == (server.now.resource_version if server.now else "")


@given(steps_with_the_same)
def test_a_read_never_returns_an_object_older_than_an_own_write(history: list[str]) -> None:
    server = Server()
    written = 0
    for what in history:
        if what == ANSWER and server.answers:
            written = int(server.answers[0][0].resource_version)
        server.happens(what)
        seen = version(server.cache, "a")
        assert not seen or int(seen) >= written


@given(steps.filter(lambda history: LIST not in history))
def test_a_listener_gets_every_foreign_change_exactly_once(history: list[str]) -> None:
    server = Server()
    for what in history:
        server.happens(what)
    while server.events:
        server.happens(DELIVER)
    told = [new for _, new in server.told if new in server.foreign]
    assert sorted(told, key=int) == sorted(server.foreign, key=int)
    assert len(told) == len(set(told))


@given(steps_with_the_same)
def test_the_last_state_that_others_made_is_told_whatever_shows_it_first(history: list[str]) -> None:
    server = Server()
    for what in [*history, FOREIGN, SAME]:
        server.happens(what)
    while server.answers:
        server.happens(ANSWER)
    while server.events or server.listing:
        server.happens(ARRIVE)
        server.happens(DELIVER)
    assert server.now is not None
    assert [new for _, new in server.told].count(server.now.resource_version) == 1


@given(steps_with_the_same)
@example([FOREIGN, DELIVER, BEGIN, FOREIGN, SAME, ANSWER, ARRIVE])
@example([BEGIN, FOREIGN, SAME, ANSWER, OURS, ANSWER, ARRIVE])
@example([OURS, DELETE, FOREIGN, FOREIGN, SAME])
def test_a_listener_never_gets_a_state_again_or_after_a_later_one(history: list[str]) -> None:
    server = Server()
    for what in history:
        server.happens(what)
    server.catch_up()
    told = [int(new) for _, new in server.told if new]
    assert told == sorted(set(told))


def test_a_whole_object_replaces_the_partial_one_of_the_same_version(cache: Cache, told: Told) -> None:
    whole = live("a", 1)
    cache.upsert(whole.as_partial())
    assert cache.partial == 1
    told.clear()
    assert cache.written(whole, changed=False) is whole
    assert cache.get(whole.identity.namespace, "a") is whole
    assert (cache.partial, told) == (0, [])
    cache.written(whole.as_partial(), changed=False)
    assert cache.get(whole.identity.namespace, "a") is whole
    cache.upsert(live("a", 2).as_partial())
    cache.remove(live("a", 2))
    assert cache.partial == 0


LABELS = st.dictionaries(st.sampled_from(["k", "l"]), st.sampled_from(["1", "2"]))
NAMESPACES = st.sampled_from(["a", "b"])
EVENTS = st.tuples(NAMESPACES, st.sampled_from(["x", "y"]), st.one_of(st.none(), LABELS))
QUESTIONS = st.tuples(st.sampled_from(["a", "b", ""]), LABELS)


def labelled(namespace: str, name: str, labels: dict[str, str], version: int) -> LiveObject:
    metadata = {"namespace": namespace, "name": name, "labels": labels, "resourceVersion": str(version), "uid": name}
    return LiveObject.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


@given(st.lists(EVENTS), st.lists(EVENTS), st.lists(QUESTIONS, min_size=1))
def test_the_objects_with_some_labels_are_found_however_they_came(
    first: list[tuple[str, str, dict[str, str] | None]],
    then: list[tuple[str, str, dict[str, str] | None]],
    queries: list[tuple[str, dict[str, str]]],
) -> None:
    cache, versions = Cache(), itertools.count(1)
    for events in (first, then):
        for namespace, name, labels in events:
            if labels is None:
                cache.remove(labelled(namespace, name, {}, next(versions)))
            elif next(versions) % 2:
                cache.upsert(labelled(namespace, name, labels, next(versions)))
            else:
                cache.written(labelled(namespace, name, labels, next(versions)))
        for namespace, wanted in queries:
            expected = {
                each
                for each in cache
                if namespace in ("", each.identity.namespace) and wanted.items() <= each.metadata.labels.items()
            }
            found = cache.select(namespace, wanted)
            assert len(found) == len(expected)
            assert set(found) == expected


def test_queries_with_a_thousand_different_label_names_cost_an_event_no_more_than_a_few_do() -> None:
    def event(queries: int) -> int:
        cache = Cache()
        cache.upsert(labelled("a", "x", {"k": "1"}, 1))
        for number in range(queries):
            cache.select("a", {"k": "1", f"l{number}": "1"})
        return instructions(lambda: cache.upsert(labelled("a", "x", {"k": "2"}, 2)))

    assert event(1000) <= 1.1 * event(INDEXES_LIMIT)


def test_an_index_that_is_read_again_and_again_is_built_once() -> None:
    cache = Cache()
    for number in range(50):
        cache.upsert(labelled("a", f"x{number}", {"k": str(number)}, number + 1))
    first = instructions(lambda: cache.select("a", {"k": "7"}))
    for number in range(1000):
        cache.select("a", {f"l{number}": "1"})
        assert [each.identity.name for each in cache.select("a", {"k": "7"})] == ["x7"]
    assert instructions(lambda: cache.select("a", {"k": "7"})) < first / 10


def test_a_query_whose_index_was_dropped_finds_what_came_since() -> None:
    cache = Cache()
    cache.upsert(labelled("a", "x", {"k": "1"}, 1))
    cache.select("a", {"k": "1"})
    for number in range(INDEXES_LIMIT):
        cache.select("a", {f"l{number}": "1"})
    cache.upsert(labelled("a", "y", {"k": "1"}, 2))
    cache.remove(labelled("a", "x", {"k": "1"}, 3))
    assert [each.identity.name for each in cache.select("a", {"k": "1"})] == ["y"]
