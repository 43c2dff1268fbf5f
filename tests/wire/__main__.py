"""`python -m tests.wire`: writes and compares what the operator sends in the stories, so that a change of
structure can be shown to change nothing on the wire.

Promises:
- The log has, for each story, step, parent and request (verb, path), the different bodies that runs without a
  perturbation send: manifests, statuses, records and Events.
- What each run draws (uids, times, resourceVersions, random names and values) is masked. How often and in which order
  requests of one reconcile go is not compared: they run in parallel, and Kubernetes' own controllers decide the rest.
- A body that only the newer log has, and a request that only one of both has, is a difference.
"""

from __future__ import annotations

import argparse
import asyncio
import difflib
import json
import logging
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import Request
from ssa_operator.operator import operator
from tests.perturbations.history import normalized
from tests.perturbations.matrix import prepared
from tests.perturbations.play import play_unperturbed
from tests.perturbations.stories import stories
from tests.perturbations.story import Story

Log = Mapping[str, Sequence[str]]
"""The bodies of each request, by `story | step | parent | verb path`."""

_MASKS = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r'"resourceVersion":"\d+"'), '"resourceVersion":"RV"'),
    (re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b"), "ADDRESS"),
    (re.compile(r"\.[0-9a-f]{16}\b"), ".EVENT"),
    (re.compile(r"\b[0-9a-f]{40,64}\b"), "DIGEST"),
    (re.compile(r"\b\d+(\.\d+)? ?(ms|s|m|h)\b"), "SECONDS"),
    (re.compile(r"\b\d+ of \d+ (pods|replicas) \w+"), "PROGRESS"),
)
_CONFIDENTIAL = ("data", "stringData")


def masked(request: Request, namespace: str) -> tuple[str, str]:
    """The verb and path of a request, and its body, as they are in every run."""
    path = _without_drawn(normalized(request.path, namespace))
    if not request.body:
        return f"{request.verb} {path}", ""
    body = json.loads(request.body)
    if isinstance(body, dict) and body.get("kind") == "Secret":
        body = {name: sorted(value) if name in _CONFIDENTIAL else value for name, value in body.items()}
    return f"{request.verb} {path}", _without_drawn(normalized(json.dumps(body, separators=(",", ":")), namespace))


def _without_drawn(text: str) -> str:
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text


async def _entries(story: Story, cluster: Cluster, client: Client, folder: Path) -> Iterator[tuple[str, str]]:
    _, run = await play_unperturbed(story, cluster, client, folder)
    found = []
    for step, parent, request in run.disturbance.sent:
        subject, body = masked(request, run.namespace)
        found.append(
            (f"{story.name} | {story.steps[step].name} | {normalized(parent, run.namespace)} | {subject}", body)
        )
    return iter(found)


async def play(chosen: Sequence[Story], folder: Path, runs: int, parallel: int) -> Log:
    """The log of some runs of each story."""
    limit = asyncio.Semaphore(parallel)
    bodies = defaultdict[str, set[str]](set)
    cluster = await start(ClusterSpec(name="wire"))
    try:
        async with prepared(cluster, chosen) as client:

            async def one(story: Story) -> None:
                async with limit:
                    for key, body in await _entries(story, cluster, client, folder):
                        bodies[key].add(body)

            await asyncio.gather(*(one(story) for story in chosen for _ in range(runs)))
    finally:
        await cluster.stop()
    return {key: sorted(found) for key, found in sorted(bodies.items())}


def differences(old: Log, new: Log) -> Iterator[str]:
    """What the newer log has, and the older one has not, and which requests are gone."""
    for key in sorted(old.keys() | new.keys()):
        if key not in new:
            yield f"- {key}"
            continue
        known = old.get(key, ())
        for body in new[key]:
            if body not in known:
                yield f"+ {key}\n{_difference(known, body)}"


def _difference(known: Sequence[str], body: str) -> str:
    closest = difflib.get_close_matches(body, known, 1, 0.0)
    lines = [json.dumps(json.loads(text), indent=1).splitlines() if text else [] for text in (*closest, body)]
    changed: Iterator[Any] = difflib.unified_diff(lines[0] if closest else [], lines[-1], n=1, lineterm="")
    return "\n".join(f"    {line}" for line in changed if not line.startswith(("---", "+++", "@@")))


def main() -> None:
    """Write the log, or compare with one. Exits with 1 if there is a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.wire", description=__doc__)
    parser.add_argument("log", type=Path, help="the file; if it exists, it is compared and stays as it is")
    parser.add_argument("--story", action="append", default=[], help="play only this story (repeatable)")
    parser.add_argument("--runs", type=int, default=3, help="runs of each story")
    parser.add_argument("--parallel", type=int, default=4, help="runs at the same time")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    operator.DRAIN_DEADLINE = 0.0
    with tempfile.TemporaryDirectory(prefix="ssa-operator-wire-") as folder:
        os.environ["SSA_OPERATOR_STATE_DIR"] = f"{folder}/state"
        every = stories(Path(folder))
        chosen = [story for story in every if story.name in (arguments.story or [each.name for each in every])]
        found = asyncio.run(play(chosen, Path(folder), arguments.runs, arguments.parallel))
    if not arguments.log.exists():
        arguments.log.write_text(json.dumps(found, indent=1))
        print(f"{len(found)} requests, {sum(map(len, found.values()))} bodies")
        return
    names = {story.name for story in chosen}
    old = {key: bodies for key, bodies in json.loads(arguments.log.read_text()).items() if key.split(" | ")[0] in names}
    changed = [*differences(old, found)]
    print("\n".join([*changed, f"{len(found)} requests, {len(changed)} differences"]))
    sys.exit(bool(changed))


if __name__ == "__main__":
    main()
