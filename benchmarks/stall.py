"""Measures how long one text or template holds up the event loop: `python -m benchmarks.stall [WORD]`.

The event loop answers `/healthz`, so a stall of it is a silence of the probe. A task measures how late the loop runs,
in the thread's processor time, so that other load does not count.

- Each of `STEPS` runs once in the loop: what a reconcile does with the worst text that a parent, a child or an answer
  of the API server may hold. A step should be shorter than LIMIT.
- Sixteen workers render each of `RUNAWAY`, whose templates run until a limit stops them: once without turns, and once
  in the turns of the reconciler.

With WORD, only the cases that contain it run.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

from ssa_operator.controller.reconcile.parent_view import ParentView
from ssa_operator.controller.reconcile.render_moment import Moment
from ssa_operator.controller.reconcile.render_turns import RenderTurns
from ssa_operator.core.objects.cluster_view import OFFLINE
from ssa_operator.core.objects.field_attribution import attribute
from ssa_operator.core.objects.json_decoding import decode_text
from ssa_operator.core.objects.live_object import MANAGER, LiveObject
from ssa_operator.core.objects.messages import near_names
from ssa_operator.core.objects.source_location import parse_field
from ssa_operator.core.objects.string_formats import is_format
from ssa_operator.core.planning.field_changes import field_changes
from ssa_operator.core.policies.field_conflicts import find_field_changes
from ssa_operator.core.policies.recreate import Probe, proves_nothing
from ssa_operator.rendering.folder.sources import Folder, load_all
from ssa_operator.rendering.render import render

LIMIT = 0.3
"""Seconds that a step may take."""

WORKERS = 16

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

# One line a case: a function that prepares the text, and returns the step to measure.
STEPS: Mapping[str, Callable[[], Step]] = {
    "a refused field of 65 quotation marks": lambda: partial(parse_field, "data[" + '"' * 65 + "]"),
    "a refused field of a million brackets": lambda: partial(parse_field, '["' + "[a" * 500_000),
    "an annotation of quotation marks": lambda: partial(decode_or_none, "[" * 200 + '\\"' * 130_000),
    "a duration of 50 000 parts": lambda: partial(is_format, "duration", "00s" * 50_000 + "!"),
    "a refusal by 30 000 quotas": lambda: partial(proves_nothing, Probe("web", b""), (), QUOTAS * 30_000, None),
    "a quantity of 400 000 digits": lambda: rendered("a: {{ spec.size | bytes }}", {"size": "9" * 400_000}),
    "a child by a name of 100 000 characters": lambda: rendered(
        "a: {{ child('ConfigMap', spec.size).data }}", {"size": "a" * 100_000}
    ),
    "a mistyped name beside 3 000 names": lambda: partial(
        near_names, "ab" * 50, [("aab" * 33)[:99] + str(number % 10) for number in range(3000)]
    ),
    "4 000 env entries that somebody changed": lambda: partial(
        find_field_changes, child(4000).own_entry(), child(4000), child(4000, "someone")
    ),
    "4 000 env entries by their writers": lambda: partial(attribute, child(4000, "someone"), None),
    "4 000 env entries that an apply reverts": lambda: partial(field_changes, child(4000, "someone"), child(4000)),
}


QUOTAS = "exceeded quota: a, requested: "


def child(count: int, writer: str = "") -> LiveObject:
    """A child with many environment variables of the operator's, whose values another writer may have changed."""
    keys = [f'k:{{"name":"N{number}"}}' for number in range(count)]
    own: dict[str, Any] = {key: {".": {}, "f:name": {}, **({} if writer else {"f:value": {}})} for key in keys}
    entries = [{"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": {"f:env": own}}}]
    if writer:
        theirs: dict[str, Any] = {key: {"f:value": {}} for key in keys}
        entries.append({"manager": writer, "operation": "Update", "fieldsV1": {"f:spec": {"f:env": theirs}}})
    metadata = {"name": "web", "namespace": "default", "uid": "1", "resourceVersion": "7", "managedFields": entries}
    env = [{"name": f"N{number}", "value": writer} for number in range(count)]
    return LiveObject.of({"apiVersion": "example.com/v1", "kind": "Any", "metadata": metadata, "spec": {"env": env}})


def decode_or_none(text: str) -> object:
    """The JSON of a text, None if it is none."""
    with contextlib.suppress(ValueError):
        return decode_text(text)
    return None


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    print("longest silence of /healthz, in seconds of processor time")
    for name, prepare in STEPS.items():
        if word in name:
            stall = asyncio.run(longest_stall(_once(prepare())))
            print(f"  {name}: {stall:.3f}{'' if stall < LIMIT else f' is longer than {LIMIT}'}")
    for name, text in RUNAWAY.items():
        if word in name:
            folder = loaded(text)
            without = asyncio.run(longest_stall(_workers(folder, None)))
            turns = asyncio.run(longest_stall(_workers(folder, RenderTurns())))
            print(f"  {name}: {turns:.2f} ({without:.2f} without turns)")


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
        last = time.thread_time()
        await asyncio.sleep(0)
        stalls[0] = max(stalls[0], time.thread_time() - last)


async def _once(step: Step) -> None:
    step()


async def _workers(folder: Folder, turns: RenderTurns | None) -> None:
    await asyncio.gather(*(_worker(folder, turns, str(number)) for number in range(WORKERS)))


async def _worker(folder: Folder, turns: RenderTurns | None, uid: str) -> None:
    if turns is None:
        render(folder, PARENT)
    else:
        moment = Moment(lambda: cast("ParentView", OFFLINE))
        await turns.run(uid, moment, lambda seen: render(folder, PARENT, seen))


if __name__ == "__main__":
    main()
