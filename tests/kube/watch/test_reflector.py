"""What goes wrong with watches, by script; what goes right is shown against a real API server."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.kube.api import transport
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.watch import watch_events as watch_lines
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import FAILURES, Reflector, ReflectorState, ReflectorTiming
from ssa_operator.kube.watch.watch_events import LineError, LineSplitter
from tests.kube.fakes import (
    CONFIG_MAPS,
    StillClock,
    TokenSequence,
    bookmark,
    config_map,
    credentials,
    event,
    refuse,
    scripted,
    status,
)

TIMING = ReflectorTiming()

SILENCE = 0.3
"""Seconds after which a watch is silent, where a test waits for that: more than a busy machine holds an event up."""

Round = Callable[[web.BaseRequest, "Watched"], Awaitable[web.StreamResponse]]


class Watched:
    """A reflector, its cache, and a server that answers each of its requests by the next round of a script.

    The last round is not answered: `ended` is set when it is asked for, and then nothing happens any more.
    """

    def __init__(self, *rounds: Round) -> None:
        self.rounds = list(rounds)
        self.queries: list[dict[str, str]] = []
        self.ended = asyncio.Event()
        self.clock = StillClock()
        self.cache = Cache()
        self.told: list[tuple[str, str]] = []
        self.states: list[tuple[ReflectorState, bool]] = []
        self.cache.listen(
            lambda old, new: self.told.append(
                (f"{old.identity.name}{old.resource_version}" if old else "",
                 f"{new.identity.name}{new.resource_version}" if new else "")
            )
        )  # fmt: skip
        self.reflector: Reflector

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request, web.BaseRequest)
        self.queries.append(dict(request.query))
        if not self.rounds:
            self.ended.set()
            response = await stream(request)
            await asyncio.Event().wait()
            return response
        return await self.rounds.pop(0)(request, self)

    @property
    def names(self) -> set[str]:
        return {each.identity.name for each in self.cache}


@asynccontextmanager
async def watched(*rounds: Round, timing: ReflectorTiming = TIMING) -> AsyncIterator[Watched]:
    made = Watched(*rounds)
    async with scripted(made.answer, clock=made.clock) as client:
        made.reflector = Reflector(client, Scope(CONFIG_MAPS), made.cache, timing=timing, clock=made.clock)
        made.reflector.listen(lambda each: made.states.append((each.state, each.synced.is_set())))
        task = asyncio.create_task(made.reflector.run())
        try:
            async with asyncio.timeout(20):
                await made.ended.wait()
            yield made
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def stream(request: web.BaseRequest, *lines: bytes) -> web.StreamResponse:
    response = web.StreamResponse()
    response.enable_chunked_encoding()
    await response.prepare(request)
    for line in lines:
        await response.write(line)
    return response


def sends(*lines: bytes) -> Round:
    """A stream with these lines that then ends in order."""

    async def play(request: web.BaseRequest, watched: Watched) -> web.StreamResponse:
        response = await stream(request, *lines)
        await response.write_eof()
        return response

    return play


def breaks_after(*lines: bytes) -> Round:
    async def play(request: web.BaseRequest, watched: Watched) -> web.StreamResponse:
        await stream(request, *lines)
        assert request.transport is not None
        # What was written has to arrive before the reset.
        while watched.reflector.events < len([line for line in lines if line.endswith(b"\n")]):  # noqa: ASYNC110
            await asyncio.sleep(0)  # the reflector has no event for this
        request.transport.abort()
        raise asyncio.CancelledError

    return play


def silent_after(*lines: bytes) -> Round:
    async def play(request: web.BaseRequest, watched: Watched) -> web.StreamResponse:
        await stream(request, *lines)
        await asyncio.Event().wait()
        raise AssertionError

    return play


def answers(response: Callable[[], web.StreamResponse]) -> Round:
    async def play(request: web.BaseRequest, watched: Watched) -> web.StreamResponse:
        return response()

    return play


def lists(version: int, *items: dict[str, Any]) -> Round:
    body = {"metadata": {"resourceVersion": str(version)}, "items": list(items)}
    return answers(lambda: web.json_response(body))


def added(name: str, version: int) -> bytes:
    return event("ADDED", config_map(name, version))


PRESENT = (added("a", 1), added("b", 2), bookmark(5, end=True))
GONE = event("ERROR", status(410, "Expired", "too old resource version: 5 (9)"))


async def test_a_streamed_list_enters_the_cache_as_a_whole_at_its_end_marker() -> None:
    async with watched(sends(added("a", 1), bookmark(3), added("b", 2), event("DELETED", config_map("a", 4)),
                             bookmark(5, end=True), added("c", 6))) as it:  # fmt: skip
        assert it.told == [("", "b2"), ("", "c6")]
        assert it.reflector.synced.is_set()
        assert it.queries[0]["sendInitialEvents"] == "true"
        assert it.queries[1]["resourceVersion"] == "6"


async def test_a_bookmark_advances_the_resource_version() -> None:
    async with watched(sends(*PRESENT), sends(bookmark(77))) as it:
        assert [each.get("resourceVersion") for each in it.queries] == [None, "5", "77"]


@pytest.mark.parametrize(
    "gone", [sends(GONE), answers(lambda: refuse(410, "Gone", "too old"))], ids=["as an event", "as a status"]
)
async def test_after_a_410_the_reflector_lists_again_and_loses_no_deletion(gone: Round) -> None:
    async with watched(sends(*PRESENT), gone, sends(added("b", 2), added("c", 8), bookmark(9, end=True))) as it:
        assert it.names == {"b", "c"}
        assert sorted(it.told) == [("", "a1"), ("", "b2"), ("", "c8"), ("a1", "")]
        assert it.reflector.synced.is_set()
        assert it.clock.slept == [0.0]


async def test_the_reflector_backs_off_if_the_server_always_answers_410() -> None:
    async with watched(*[answers(lambda: refuse(410, "Gone", "too old"))] * 4) as it:
        assert it.clock.slept == pytest.approx([0.0, 2.4, 4.8, 9.6])


async def test_a_broken_watch_continues_from_its_last_version() -> None:
    async with watched(breaks_after(*PRESENT, added("c", 6)), lists(6), sends(added("d", 7))) as it:
        assert it.queries[2]["resourceVersion"] == "6"
        assert it.names == {"a", "b", "c", "d"}
        assert it.clock.slept == pytest.approx([1.2])


async def test_the_reflector_keeps_half_a_line_until_the_rest_arrives() -> None:
    whole = added("c", 6)
    async with watched(breaks_after(*PRESENT, whole[:30]), lists(5), sends(whole[:10], whole[10:])) as it:
        assert it.names == {"a", "b", "c"}
        assert it.queries[2]["resourceVersion"] == "5"


async def test_a_streamed_list_that_breaks_before_its_end_marker_changes_nothing() -> None:
    async with watched(breaks_after(added("a", 1)), sends(added("b", 2), bookmark(5, end=True))) as it:
        assert it.told == [("", "b2")]
        assert it.queries[1]["sendInitialEvents"] == "true"


async def test_the_reflector_replaces_a_silent_watch_from_the_last_version() -> None:
    async with watched(
        silent_after(*PRESENT, added("c", 6)), lists(6), timing=ReflectorTiming(silence_timeout=SILENCE, short_watch=0)
    ) as it:
        assert it.queries[1] == {"limit": "1"}
        assert it.queries[2]["resourceVersion"] == "6"
        assert it.clock.slept == []


async def test_a_watch_that_never_begins_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def half_open(request: web.BaseRequest, watched: Watched) -> web.StreamResponse:
        monkeypatch.undo()  # the next watch has its time
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(transport, "REQUEST_TIMEOUT", SILENCE)
    async with watched(half_open, sends(*PRESENT)) as it:
        assert it.names == {"a", "b"}
        assert it.clock.slept == pytest.approx([1.2])


@pytest.mark.parametrize(
    "interruption",
    [silent_after(*PRESENT), breaks_after(*PRESENT)],
    ids=["silence", "reset"],
)
async def test_if_the_server_went_back_the_reflector_lists_again(interruption: Round) -> None:
    """Its etcd was restored from an older state. It accepts a watch from the future, and sends nothing."""
    timing = ReflectorTiming(silence_timeout=SILENCE, short_watch=0)
    older = sends(added("a", 1), bookmark(2, end=True))
    async with watched(interruption, lists(2), older, timing=timing) as it:
        assert it.queries[2]["sendInitialEvents"] == "true"
        assert it.names == {"a"}
        assert it.told[-1] == ("b2", "")


async def loses_server(request: web.BaseRequest, watched: Watched) -> web.StreamResponse:
    """The watch ends in order. Then nothing listens until the next backoff."""
    client, clock = watched.reflector._client, watched.clock
    reached, client.credentials = client.credentials, credentials("http://127.0.0.1:1", TokenSequence("t"), clock)

    async def sleep(seconds: float) -> None:
        client.credentials = reached
        await StillClock.sleep(clock, seconds)

    clock.sleep = sleep  # type: ignore[method-assign]
    return await sends(bookmark(7))(request, watched)


async def test_if_the_server_was_away_the_reflector_lists_again() -> None:
    async with watched(sends(*PRESENT, added("c", 6)), loses_server, sends(*PRESENT)) as it:
        assert it.queries[-2]["sendInitialEvents"] == "true"
        assert it.names == {"a", "b"}


@pytest.mark.parametrize(
    "old", [answers(lambda: refuse(422, "Invalid", "sendInitialEvents: Forbidden")),
            answers(lambda: refuse(400, "BadRequest", "resourceVersionMatch is forbidden for watch")),
            silent_after(added("a", 1)), sends(added("a", 1))],
    ids=["refused with 422", "refused with 400", "ignored and silent", "ignored and ended"],
)  # fmt: skip
async def test_the_reflector_lists_in_pages_if_the_server_does_not_stream_lists(old: Round) -> None:
    async with watched(
        old, lists(5, config_map("a", 1)), sends(added("b", 6)), timing=ReflectorTiming(list_timeout=0.05)
    ) as it:
        assert it.queries[1] == {"limit": "500"}
        assert it.queries[2]["resourceVersion"] == "5"
        assert it.told == [("", "a1"), ("", "b6")]


RELIST = sends(GONE)


@pytest.mark.parametrize("cut", [sends(), sends(added("a", 1))], ids=["at once", "in the middle"])
async def test_the_reflector_streams_lists_again_after_a_cut_one(cut: Round) -> None:
    rounds = [each for _ in range(FAILURES + 1) for each in (cut, lists(5, config_map("a", 1)), RELIST)]
    async with watched(*rounds, sends(*PRESENT)) as it:
        assert [each.get("sendInitialEvents") for each in it.queries[::3]] == ["true"] * (FAILURES + 2)
        assert it.names == {"a", "b"}


async def test_the_reflector_lists_in_pages_after_several_lists_without_an_end_marker() -> None:
    ignored = [silent_after(added("a", 1)), lists(5, config_map("a", 1)), RELIST] * FAILURES
    async with watched(*ignored, lists(9, config_map("b", 8)), timing=ReflectorTiming(list_timeout=0.05)) as it:
        assert it.queries[3 * FAILURES] == {"limit": "500"}
        assert it.names == {"b"}


async def test_the_reflector_streams_lists_again_after_one_silent_list() -> None:
    rounds = [
        each
        for _ in range(FAILURES)
        for each in (silent_after(added("a", 1)), lists(5), RELIST, sends(*PRESENT), RELIST)
    ]
    async with watched(*rounds, sends(*PRESENT), timing=ReflectorTiming(list_timeout=0.05)) as it:
        assert it.queries[5 * FAILURES]["sendInitialEvents"] == "true"


async def test_the_reflector_requests_no_streamed_list_after_a_refusal() -> None:
    refused = answers(lambda: refuse(422, "Invalid", "sendInitialEvents: Forbidden"))
    async with watched(refused, lists(5), RELIST, lists(9, config_map("b", 8))) as it:
        assert [each.get("sendInitialEvents") for each in it.queries] == ["true", None, None, None, None]


@pytest.mark.parametrize("code", [429, 500, 503])
async def test_a_throttled_watch_is_retried_without_a_list(code: int) -> None:
    refused = answers(lambda: refuse(code, "Later", "later", retryAfterSeconds=7))
    async with watched(sends(*PRESENT), refused, refused) as it:
        assert [each.get("resourceVersion") for each in it.queries] == [None, "5", "5", "5"]
        assert it.clock.slept == [7, 7]
        assert it.reflector.synced.is_set()


async def test_if_the_server_has_not_seen_the_version_the_reflector_waits_for_retry_after_and_lists() -> None:
    behind = status(504, "Timeout", "Too large resource version: 5, current: 2", retryAfterSeconds=3)
    async with watched(sends(*PRESENT), sends(event("ERROR", behind)), sends(*PRESENT)) as it:
        assert it.clock.slept == [3]
        assert it.queries[2]["sendInitialEvents"] == "true"


async def test_a_watch_that_ends_at_once_without_events_backs_off() -> None:
    async with watched(sends(*PRESENT), sends(), sends(), sends()) as it:
        assert it.clock.slept == pytest.approx([1.2, 2.4, 4.8])
        assert it.reflector.restarts == 4


async def test_two_minutes_without_an_error_reset_the_backoff() -> None:
    async def healthy(request: web.BaseRequest, watched: Watched) -> web.StreamResponse:
        watched.clock.time += 121
        return await sends(bookmark(6))(request, watched)

    async with watched(sends(*PRESENT), sends(), sends(), healthy, sends()) as it:
        assert it.clock.slept == pytest.approx([1.2, 2.4, 1.2])


@pytest.mark.parametrize(
    ("refused", "state", "words"),
    [
        (
            answers(lambda: web.Response(status=404, text="404 page not found\n")),
            ReflectorState.MISSING,
            "404 page not found",
        ),
        (
            answers(lambda: refuse(403, "Forbidden", 'cannot watch resource "configmaps"')),
            ReflectorState.FORBIDDEN,
            "cannot watch",
        ),
    ],
)
async def test_a_missing_resource_or_permission_is_a_state_and_is_retried(
    refused: Round, state: ReflectorState, words: str
) -> None:
    async with watched(refused) as it:
        assert (it.reflector.state, it.reflector.synced.is_set()) == (state, False)
        assert words in it.reflector.problem
        await it.reflector.synced_or_unavailable()


async def test_a_crd_that_is_deleted_and_created_again_leaves_no_old_object() -> None:
    missing = answers(lambda: web.Response(status=404, text="404 page not found\n"))
    async with watched(sends(*PRESENT), missing, missing, sends(added("c", 8), bookmark(9, end=True))) as it:
        assert it.states == [
            (ReflectorState.WATCHING, True),
            (ReflectorState.MISSING, False),
            (ReflectorState.WATCHING, True),
        ]
        assert it.names == {"c"}
        assert it.reflector.problem == ""


async def test_only_a_failure_that_repeats_is_a_problem() -> None:
    problems: list[str] = []

    async def look(request: web.BaseRequest, watched: Watched) -> web.StreamResponse:
        problems.append(watched.reflector.problem)
        return refuse(500, "InternalError", "broken")

    async with watched(sends(*PRESENT), look, look, look, look) as it:
        assert problems[:3] == ["", "", ""]
        assert "broken" in problems[3]
        assert it.reflector.synced.is_set()


@pytest.mark.parametrize(
    "line",
    [
        b"no json\n",
        b"{}\n",
        b'{"type":"ADDED","object":{"metadata":5}}\n',
        b'{"type":"ADDED","object":{"metadata":{"name":"\xff"}}}\n',
        b'{"type":"ADDED","object":' + b"[" * 100_000 + b"\n",
        b"\xff\xfe\n",
        b"[]\n",
    ],
    ids=["no JSON", "an empty event", "no metadata", "a name that is no text", "lists without end", "UTF-16", "a list"],
)
async def test_an_unreadable_event_causes_a_new_list(line: bytes) -> None:
    async with watched(sends(*PRESENT, line), sends(added("b", 2), bookmark(9, end=True))) as it:
        assert it.queries[1]["sendInitialEvents"] == "true"
        assert it.names == {"b"}


async def test_an_object_of_thousands_of_levels_does_not_hide_the_others() -> None:
    deep = {**config_map("deep", 6), "data": "DEEP"}
    value = "[" * 9000 + "]" * 9000
    in_list = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [deep, config_map("b", 2)]})
    paged = answers(lambda: web.Response(text=in_list.replace('"DEEP"', value)))
    line = event("MODIFIED", {**deep, "metadata": {**deep["metadata"], "resourceVersion": "11"}})
    events = (line.replace(b'"DEEP"', value.encode()), added("c", 12))
    async with watched(answers(lambda: refuse(422, "Invalid", "no")), paged, sends(*events)) as it:
        assert it.names == {"b", "c", "deep"}
        found = it.cache.get("default", "deep")
        assert found is not None
        assert (found.resource_version, found.body["metadata"]["name"]) == ("11", "deep")


async def test_a_listener_that_fails_does_not_end_the_watch(caplog: pytest.LogCaptureFixture) -> None:
    async def arm(request: web.BaseRequest, watched: Watched) -> web.StreamResponse:
        failures = [ValueError("once")]

        def fail(old: object, new: object) -> None:
            if failures:
                raise failures.pop()

        watched.cache.listen(fail)
        return await sends(added("c", 6))(request, watched)

    with caplog.at_level(logging.CRITICAL, "ssa_operator"):
        async with watched(sends(*PRESENT), arm, sends(*PRESENT)) as it:
            assert it.queries[2]["sendInitialEvents"] == "true"


def changes_schema(*lines: bytes) -> Round:
    """A watch with these lines. Then the schema of the CRD changes, and the server does not end the watch."""

    async def play(request: web.BaseRequest, watched: Watched) -> web.StreamResponse:
        before = watched.reflector.events
        await stream(request, *lines)
        while watched.reflector.events < before + len(lines):  # noqa: ASYNC110 - the reflector has no event for this
            await asyncio.sleep(0)
        watched.reflector.schema_changed()
        await asyncio.Event().wait()
        raise AssertionError

    return play


def shows(name: str, version: int, **fields: str) -> bytes:
    return event("ADDED", {**config_map(name, version), "data": fields})


async def test_after_a_change_of_the_schema_the_cache_shows_every_object_with_its_new_fields() -> None:
    async with watched(
        changes_schema(*PRESENT, shows("c", 6)),  # by the former schema, and with no end
        sends(added("a", 1), added("b", 2), shows("c", 6, new="field"), bookmark(7, end=True)),
    ) as it:
        assert [each.get("resourceVersion") for each in it.queries] == [None, None, None]
        assert it.told[-1] == ("c6", "c6")
        assert len(it.told) == 4
        found = it.cache.get("default", "c")
        assert found is not None
        assert found.body["data"] == {"new": "field"}


async def test_a_list_that_was_answered_by_the_former_schema_is_repeated_when_its_watch_ends() -> None:
    async with watched(
        changes_schema(*PRESENT),
        sends(*PRESENT, shows("c", 6)),
        sends(*PRESENT[:2], shows("c", 6, new="field"), bookmark(7, end=True)),
        sends(bookmark(8)),
    ) as it:
        assert [each.get("resourceVersion") for each in it.queries] == [None, None, None, "7", "8"]
        assert it.told[-1] == ("c6", "c6")


@pytest.mark.parametrize("unfinished", [changes_schema(added("a", 1)), changes_schema()], ids=["begun", "opened"])
async def test_a_list_during_which_the_schema_changes_is_not_used(unfinished: Round) -> None:
    async with watched(unfinished, sends(shows("a", 1, new="field"), bookmark(5, end=True))) as it:
        assert it.told == [("", "a1")]
        found = it.cache.get("default", "a")
        assert found is not None
        assert found.body["data"] == {"new": "field"}


async def test_a_watch_has_a_timeout_of_at_most_ten_minutes() -> None:
    async with watched(sends(*PRESENT)) as it:
        assert it.queries[0]["timeoutSeconds"] == "450"


async def test_a_cancelled_reflector_ends_at_once_and_leaves_no_connection() -> None:
    async with watched(sends(*PRESENT)) as it:
        client: Client = it.reflector._client
    assert client._watches is not None
    assert client._watches.closed


async def test_a_big_object_comes_in_one_piece_however_it_is_sent() -> None:
    big = json.dumps({"type": "ADDED", "object": {**config_map("big", 6), "data": {"x": "y" * 2_000_000}}}).encode()
    pieces = [big[start : start + 50_000] for start in range(0, len(big), 50_000)]
    async with watched(sends(*PRESENT, *pieces, b"\n")) as it:
        found = it.cache.get("default", "big")
        assert found is not None
        assert len(found.body["data"]["x"]) == 2_000_000


@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line)), st.data())
def test_however_the_stream_is_cut_the_lines_are_the_same(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    reader = LineSplitter()
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert [line for piece in pieces for line in reader.feed(piece)] == lines


def test_half_a_line_is_not_a_line() -> None:
    reader = LineSplitter()
    assert reader.feed(b'{"a":') == []
    assert reader.feed(b"1}\n{") == [b'{"a":1}']


def test_a_line_that_never_ends_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch_lines, "LINE_LIMIT", 10)
    reader = LineSplitter()
    assert reader.feed(b"123456\n789") == [b"123456"]
    assert reader.feed(b"1234567") == []
    with pytest.raises(LineError, match="larger than"):
        reader.feed(b"8")


def test_empty_lines_are_left_out() -> None:
    assert LineSplitter().feed(b"\n\na\n\n") == [b"a"]
