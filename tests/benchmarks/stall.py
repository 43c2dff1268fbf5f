"""`python -m tests.benchmarks stall [WORD]`: how long one text or template holds up the event loop.

The event loop answers `/healthz`, so a stall of it is a silence of the probe. A task measures how late the loop runs,
in the processor time of the process: other load does not count, and what a thread takes of the loop's time does.

- Each of `STEPS` runs once in the loop: what a reconcile does with the worst text that a parent, a child or an answer
  of the API server may hold. A step should be shorter than LIMIT.
- Each of `CHANGED` is a child that somebody changed: a reconcile compares it with what its last apply left, in the
  loop or in a thread.
- Four workers render each of `RUNAWAY`, whose templates run until a limit stops them, as the reconciler does: the
  first 0.025 s in the loop, and then in a thread.
- The worst of `tests/rendering/bombs.py`, each rendered once in the same way.
- A process answers `/healthz` beside 1 000 connections that send nothing, `G` or half a header, in seconds.

With WORD, only the cases that contain it run.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

from ssa_operator.cli.main import GC_THRESHOLD
from ssa_operator.objects.cluster_view import OFFLINE
from ssa_operator.objects.field_attribution import attribute
from ssa_operator.objects.json_codec import decode_text, encode
from ssa_operator.objects.live_object import MANAGER, PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.readiness import readiness
from ssa_operator.objects.source_location import parse_field
from ssa_operator.reconcile.child_memory import ChildMemories, ChildMemory
from ssa_operator.reconcile.field_conflicts.history import ConflictPolicy
from ssa_operator.reconcile.field_conflicts.rules import (
    AppliedChildren,
    find_field_changes,
    observe_conflicts,
    observe_foreign_changes,
)
from ssa_operator.reconcile.parent_view import ParentView
from ssa_operator.reconcile.recreate.rules import TrialManifest, refusal_is_about_trial
from ssa_operator.reconcile.render_turns import RenderMoment, RenderTurns
from ssa_operator.reconcile.resync.unchanged import ApplyRecord, is_counted_as_change, is_same_apply, is_untouched
from ssa_operator.rendering.folder.loaded_folders import Folder, load_all
from ssa_operator.rendering.render import render
from ssa_operator.schema.string_formats import is_format
from tests.benchmarks.renames import Probes
from tests.cli.process import started
from tests.operator.test_health import UNREACHABLE
from tests.operator.test_http_connections import opened
from tests.rendering.bombs import BOMBS

LIMIT = 0.3
"""Seconds that a step may take."""

WORKERS = 4

SHOWN = 5
"""Bombs that are printed: the worst."""

CONNECTIONS = "1 000 connections that send nothing or half a header"

RUNAWAY: Mapping[str, str] = {
    "a loop that computes": (
        "{% set ns = namespace(x=0) %}{% for a in range(1000) %}{% for b in range(90000) %}"
        "{% set ns.x = (ns.x * 31 + b) % 1000003 %}{% endfor %}{% endfor %}"
    ),
    "a list that is sorted again and again": (
        "{% for a in range(1000) %}{% set x = range(50000) | list | sort(reverse=true) %}{% endfor %}"
    ),
    "a text that is parsed again and again": (
        "{% set t = range(20000) | list | to_yaml %}{% for a in range(100000) %}{% set x = t | from_yaml %}{% endfor %}"
    ),
}

PARENT = {
    "apiVersion": "example.com/v1",
    "kind": "Echo",
    "metadata": {"name": "web", "namespace": "default", "uid": "1", "generation": 1},
    "spec": {},
}


Step = Callable[[], object]


WORDS: str = b64encode(b" ".join(b"%x" % number for number in Random(1).choices(range(2**40), k=95_000))).decode()
"""1 MiB of them."""

COPY = (
    "apiVersion: v1\nkind: Secret\nmetadata: {name: copy}\ndata: {a: '{{ object.data.a }}'}\n"
    "stringData: {b: '{{ object.data.a | b64decode }}'}\n"
)

# One line a case: a function that prepares the text, and returns the step to measure.
STEPS: Mapping[str, Callable[[], Step]] = {
    "a refused field of 65 quotation marks": lambda: partial(parse_field, "data[" + '"' * 65 + "]"),
    "a refused field of a million brackets": lambda: partial(parse_field, '["' + "[a" * 500_000),
    "an annotation of quotation marks": lambda: partial(decode_or_none, "[" * 200 + '\\"' * 130_000),
    "a duration of 50 000 parts": lambda: partial(is_format, "duration", "00s" * 50_000 + "!"),
    "a refusal by 30 000 quotas": lambda: partial(
        refusal_is_about_trial, TrialManifest("web", b""), (), QUOTAS * 30_000, None
    ),
    "a quantity of 400 000 digits": lambda: rendered("a: {{ spec.size | bytes }}", {"size": "9" * 400_000}),
    "a child by a name of 100 000 characters": lambda: rendered(
        "a: {{ child('ConfigMap', spec.size).data }}", {"size": "a" * 100_000}
    ),
    "a mistyped name beside 3 000 names": lambda: partial(
        near_names, "ab" * 50, [("aab" * 33)[:99] + str(number % 10) for number in range(3000)]
    ),
    "4 000 env entries by their writers": lambda: partial(attribute, child(4000, "someone"), None),
    "a child with managedFields of 3 000 levels": lambda: partial(
        find_field_changes, child(40).own_entry(), child(40), child(40, levels=3000)
    ),
    "250 ConfigMaps of 900 kB with a parent's label": lambda: partial(list, map(LiveObject.as_partial, large_maps())),
    "a Secret of 1 MiB of random words that a template copies": lambda: partial(
        render, loaded(COPY), {**PARENT, "kind": "Secret", "data": {"a": WORDS}}
    ),
    "4 000 env entries that an apply reverts": lambda: partial(reverted, child(4000), child(4000, "someone")),
    "a status of 3 000 conditions": lambda: partial(readiness, conditions(3000), 0.0),
}

# One line a case: the child as its last apply left it, and as somebody changed it.
CHANGED: Mapping[str, Callable[[], tuple[LiveObject, LiveObject]]] = {
    "4 000 env entries that somebody changed": lambda: (child(4000), child(4000, "someone")),
    "30 000 keys that somebody changed": lambda: (config_map(30_000), config_map(30_000, "someone")),
    "3 000 fields that 500 managers changed": lambda: (config_map(3000), config_map(3000, *map(str, range(500)))),
    "4 000 env entries that somebody added to": lambda: (child(4000), added(child(4000))),
}


QUOTAS = "exceeded quota: a, requested: "


def large_maps() -> Iterator[LiveObject]:
    """ConfigMaps of others with the label of a parent, as they come over the wire."""
    metadata = {"name": "theirs", "namespace": "default", "uid": "2", "labels": {PARENT_UID_LABEL: "1"}}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "x" * 900_000}}
    raw = encode(body)
    return (LiveObject(raw) for _ in range(250))


def child(count: int, writer: str = "", levels: int = 0) -> LiveObject:
    """A child with many environment variables of the operator's, whose values another writer may have changed. With
    `levels`, another writer has nested the operator's entry.
    """
    keys = [f'k:{{"name":"N{number}"}}' for number in range(count)]
    own: dict[str, Any] = {key: {".": {}, "f:name": {}, **({} if writer else {"f:value": {}})} for key in keys}
    if levels:
        own["f:deep"] = {}
    entries = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:env": own}}}]
    if writer:
        theirs: dict[str, Any] = {key: {"f:value": {}} for key in keys}
        entries.append({"manager": writer, "operation": "Update", "fieldsV1": {"f:spec": {"f:env": theirs}}})
    metadata = {"name": "web", "namespace": "default", "uid": "1", "resourceVersion": "7", "managedFields": entries}
    env = [{"name": f"N{number}", "value": writer} for number in range(count)]
    raw = encode({"apiVersion": "example.com/v1", "kind": "Any", "metadata": metadata, "spec": {"env": env}})
    return LiveObject(raw.replace(b'"f:deep":{}', b'"f:a":{' * levels + b"}" * levels))


def config_map(count: int, *writers: str) -> LiveObject:
    """A ConfigMap with many keys of the operator's, of which each of the others has changed as many."""
    keys = [f"k{number}" for number in range(count)]
    entries = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:data": {f"f:{key}": {} for key in keys}}}]
    for number, writer in enumerate(writers):
        entries[0] = {**entries[0], "fieldsV1": {"f:data": {}}}
        theirs: dict[str, Any] = {f"f:{key}": {} for key in keys[number :: len(writers)]}
        entries.append({"manager": writer, "operation": "Update", "fieldsV1": {"f:data": theirs}})
    metadata = {"name": "web", "namespace": "default", "uid": "1", "resourceVersion": "8" if writers else "7"}
    data = dict.fromkeys(keys, "theirs" if writers else "ours")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {**metadata, "managedFields": entries}, "data": data}
    return LiveObject.of(body)


def added(live: LiveObject) -> LiveObject:
    """A child to each of whose entries somebody added a field that the operator doesn't own."""
    env = [{**entry, "theirs": "x"} for entry in live.body["spec"]["env"]]
    metadata = {**live.body["metadata"], "resourceVersion": "8"}
    return LiveObject.of({**live.body, "metadata": metadata, "spec": {"env": env}})


def conditions(count: int) -> dict[str, Any]:
    """An object with many conditions, none of which says that it is ready."""
    found = [{"type": f"T{number}", "status": "False", "lastTransitionTime": NOON} for number in range(count)]
    return {**PARENT, "status": {"conditions": found}}


NOON = "2026-01-01T12:00:00Z"


def reverted(applied: LiveObject, changed: LiveObject) -> None:
    """What a reconcile compares after the apply that reverts a change."""
    is_same_apply(changed, applied)
    is_counted_as_change(changed, applied)
    is_untouched(ApplyRecord(digest=b"", applied=applied), changed)


def decode_or_none(text: str) -> object:
    """The JSON of a text, None if it is none."""
    with contextlib.suppress(ValueError):
        return decode_text(text)
    return None


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    gc.set_threshold(GC_THRESHOLD)
    gc.freeze()
    print("longest silence of /healthz, in seconds of processor time")
    for name, prepare in STEPS.items():
        if word in name:
            print_stall(name, asyncio.run(longest_stall(_once(prepare()))))
    for name, prepare_pair in CHANGED.items():
        if word in name:
            print_stall(name, asyncio.run(longest_stall(_compared(*prepare_pair()))))
    for name, text in RUNAWAY.items():
        if word in name:
            folder = loaded(text)
            print_stall(name, asyncio.run(longest_stall(_workers(folder, WORKERS))))
    bombs = {name: text for name, text in BOMBS.items() if word in f"a bomb: {name}"}
    stalls = {name: asyncio.run(longest_stall(_workers(loaded(text), 1))) for name, text in bombs.items()}
    for name in sorted(stalls, key=lambda name: -stalls[name])[:SHOWN]:
        print_stall(f"a bomb: {name}", stalls[name])
    if word in CONNECTIONS:
        print_stall(CONNECTIONS, asyncio.run(beside_connections()))


def print_stall(name: str, stall: float) -> None:
    print(f"  {name}: {stall:.3f}{'' if stall < LIMIT else f' is longer than {LIMIT}'}", flush=True)


async def beside_connections() -> float:
    """The longest time to an answer of an operator, whose API server is away, beside connections that stall."""
    with contextlib.ExitStack() as stack:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "kubeconfig"
        path.write_text(UNREACHABLE)
        async with started("run", f"--kubeconfig={path}", "--templates=templates", "--listen=127.0.0.1:0") as command:
            port = int((await command.says("listening on")).strip().rpartition(":")[2])
            probes = Probes(port)
            probes.start()
            for number in range(1000):
                sent = (b"", b"G", b"GET /healthz HTTP/1.1\r\nX-Rest: ")[number % 3]
                await opened(stack, port, sent, f"127.0.0.{2 + number % 9}")
            probes.ended.set()
            await asyncio.to_thread(probes.join)
            return probes.slowest


def loaded(text: str) -> Folder:
    """A template folder with one template."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "echoes.example.com"
        folder.mkdir()
        (folder / "map.yaml.j2").write_text(text)
        return load_all((Path(root),)).folders["echoes.example.com"]


def rendered(text: str, spec: Mapping[str, Any]) -> Step:
    """The render of a template for a parent with this spec."""
    return partial(render, loaded(text), {**PARENT, "spec": spec})


async def longest_stall(work: Coroutine[Any, Any, None]) -> float:
    """The longest stall in seconds during some work."""
    stalls = [0.0]
    measuring = asyncio.create_task(_measure(stalls))
    await asyncio.sleep(0)
    await work
    await asyncio.sleep(0)
    measuring.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await measuring
    return max(stalls)


async def _measure(stalls: list[float]) -> None:
    while True:
        last = time.process_time()
        await asyncio.sleep(0)
        stalls[0] = max(stalls[0], time.process_time() - last)


async def _once(step: Step) -> None:
    step()


async def _compared(applied: LiveObject, live: LiveObject) -> None:
    row = ChildMemory(applied=ApplyRecord(digest=b"", applied=applied))
    memories = ChildMemories(by_child={live.identity: row})
    children = AppliedChildren(memories=memories, live={live.identity: live}, synced=lambda _: True)
    await observe_foreign_changes(
        lambda: children,
        lambda seen: observe_conflicts(seen, 0.0, ConflictPolicy()),
        RenderTurns().in_thread,
    )


async def _workers(folder: Folder, count: int) -> None:
    turns = RenderTurns()
    moment = RenderMoment(lambda: cast("ParentView", OFFLINE))
    work = partial(render, folder, PARENT)
    await asyncio.gather(*(turns.run(str(number), moment, work) for number in range(count)))


if __name__ == "__main__":
    main()
