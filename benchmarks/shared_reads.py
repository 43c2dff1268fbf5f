"""`python -m benchmarks.shared_reads`: what many parents that read the same objects cost, beside one parent.

Promises:
- Parents on one Secret are compared with one parent on it, by the memory that Python allocates and by CPU, after the
  same number of changes of the Secret. Each change replaces the whole content.
- Parents that count the objects of one `lookup_all`, or read each of them, are compared with the same parents over a
  tenth of the objects.
- Both measure the operator's own rules and caches, without a cluster, in one process: the ratios don't depend on the
  machine's speed of the hour.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import datetime as dt
import random
import time
import tracemalloc
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks import machine
from ssa_operator.informers.lookup_index import SelectionAnswers
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.objects.cluster_view import Answer, Lookup, OfflineClusterView, Selection
from ssa_operator.objects.identity import Identity
from ssa_operator.objects.live_object import DecodedBodies, LiveObject
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets
from ssa_operator.reconcile import outcome
from ssa_operator.reconcile.secrets.redacted_report import redacted_outcomes
from ssa_operator.reconcile.step import Action, Step
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.render import render

_TEXT = "Deployment default/web-0001-server: 1 of 2 replicas are available"
_SECRET_TEMPLATE = """apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data:
  copied: {{ lookup("v1", "Secret", "s").data.key }}
"""
_TEMPLATE = """apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data:
  found: {{ (EXPRESSION) ~ "" }}
"""
_EXPRESSIONS = {
    "counted": "lookup_all('v1', 'ConfigMap') | length",
    "read": "lookup_all('v1', 'ConfigMap') | map(attribute='data.key') | list | length",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretReads:
    """Parents on one Secret. Memory is in MiB, cpu in milliseconds a change and parent."""

    parents: int
    memory: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupReads:
    """Parents over the objects of one lookup; microseconds of CPU an object, parent and change."""

    objects: int
    counted: float
    read: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """All results of one run."""

    date: str
    machine: Mapping[str, Any]
    size: int
    """Bytes of the Secret."""
    changes: int
    one: SecretReads
    many: SecretReads
    few_objects: LookupReads
    objects: LookupReads

    @property
    def memory_ratio(self) -> float:
        """The memory of all parents, in times of that of one."""
        return round(self.many.memory / self.one.memory, 2)


def read_secret(parents: int, size: int, changes: int) -> SecretReads:
    """Have parents read a Secret of random words before and after each change, and redact what a reconcile reports:
    first for the CPU, and again for the memory, because tracing it takes time.
    """
    started = time.process_time()
    _read(parents, size, changes, f"cpu {parents}")
    seconds = time.process_time() - started
    tracemalloc.start()
    known = _read(parents, size, changes, f"memory {parents}")
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return SecretReads(parents=len(known), memory=used / 2**20, cpu=seconds * 1000 / parents / (changes + 1))


def _read(parents: int, size: int, changes: int, seed: str) -> list[ParentSecrets]:
    chance, known = random.Random(seed), [NO_SECRETS] * parents
    templates = Templates("echoes.example.com", {"echoes.example.com/a.yaml.j2": _SECRET_TEMPLATE}, "")
    parent = {"metadata": {"name": "p", "namespace": "n"}, "spec": {}}
    child = Identity("", "ConfigMap", "n", "p")
    for version in range(changes + 1):
        words = base64.b64encode(chance.randbytes(size * 3 // 4)).decode().replace("/", " ").replace("+", " ")
        data = {"key": base64.b64encode(words.encode()).decode()}
        metadata = {"name": "s", "namespace": "n", "uid": "uid", "resourceVersion": str(version)}
        view = _SecretView(secret={"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        for at in range(parents):
            (document,) = render(templates, parent, view).documents
            known[at] = ParentSecrets(children={child: known[at].of(child) | document.secret}, read=True)
            step = Step(action=Action.APPLY, identity=child, reason=_TEXT)
            redacted_outcomes([outcome.Outcome(step=step, result=outcome.Result.FAILED, message=_TEXT)] * 20, known[at])
    return known


class _SecretView(OfflineClusterView, frozen=True, kw_only=True):
    """A cluster with one Secret."""

    secret: dict[str, Any]

    def answer(self, _: Lookup | Selection, /) -> Answer:
        return Answer(objects=(self.secret,))


class _View(OfflineClusterView, frozen=True, kw_only=True):
    """A cluster whose lookups are answered as the operator's are."""

    answers: SelectionAnswers
    cache: Cache

    def answer(self, query: Lookup | Selection, /) -> Answer:
        assert isinstance(query, Selection)
        return self.answers.answer(self.answers.find(query, self.cache, keep=True))


async def read_objects(parents: int, objects: int, changes: int) -> LookupReads:
    """Have parents render a lookup of these objects after each change of one of them."""
    cache, decoded = Cache(), DecodedBodies()
    for at in range(objects):
        cache.upsert(_object(at, at + 1, decoded))
    view = _View(answers=SelectionAnswers(), cache=cache)
    figures: dict[str, float] = {}
    for name, expression in _EXPRESSIONS.items():
        text = _TEMPLATE.replace("EXPRESSION", expression)
        templates = Templates("echoes.example.com", {"echoes.example.com/a.yaml.j2": text}, name)
        taken: list[float] = []
        for change in range(changes + 1):
            cache.upsert(_object(change, objects + change + len(taken) + 1, decoded))
            started = time.process_time()
            for at in range(parents):
                found = render(templates, _parent(at), view)
                if found.documents[0].body["data"]["found"] != str(objects):
                    raise RuntimeError(f"the templates found {found.documents[0].body['data']}")
            taken.append(time.process_time() - started)
            await asyncio.sleep(0)
        figures[name] = min(taken[1:]) * 1e6 / parents / objects
    return LookupReads(objects=objects, **figures)


def _object(at: int, version: int, decoded: DecodedBodies) -> LiveObject:
    metadata = {"name": f"c{at:05}", "namespace": "default", "uid": f"uid-{at}", "resourceVersion": str(version)}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"key": f"{at}", "more": "x" * 500}}
    return LiveObject(msgspec.json.encode(body), decoded_bodies=decoded)


def _parent(at: int) -> dict[str, Any]:
    metadata = {"name": f"web-{at}", "namespace": "default", "uid": f"parent-{at}"}
    return {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": metadata, "spec": {}}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shared_reads", description=__doc__)
    parser.add_argument("--parents", type=int, default=100, help="parents that read the same")
    parser.add_argument("--size", type=int, default=200 * 1024, help="bytes of the Secret")
    parser.add_argument("--changes", type=int, default=10, help="changes of the Secret, and of an object")
    parser.add_argument("--objects", type=int, default=3000, help="objects of the lookup")
    parser.add_argument("--output", type=Path, help="the JSON file to write")
    options = parser.parse_args()
    began, described = dt.datetime.now(dt.UTC), machine.description()
    result = Result(
        date=began.isoformat(timespec="seconds"),
        machine=described,
        size=options.size,
        changes=options.changes,
        one=read_secret(1, options.size, options.changes),
        many=read_secret(options.parents, options.size, options.changes),
        few_objects=asyncio.run(read_objects(options.parents, max(options.objects // 10, 10), options.changes)),
        objects=asyncio.run(read_objects(options.parents, options.objects, options.changes)),
    )
    table = Table(title=f"a Secret of {result.size} bytes, {result.changes} changes")
    for title in ("parents", "MiB", "ms of CPU a change and parent"):
        table.add_column(title)
    for secret in (result.one, result.many):
        table.add_row(str(secret.parents), f"{secret.memory:.1f}", f"{secret.cpu:.2f}")
    Console().print(table, f"all parents take {result.memory_ratio} times the memory of one")
    table = Table(title=f"{options.parents} parents, µs of CPU an object, parent and change")
    for title in ("objects", "counted", "each read"):
        table.add_column(title)
    for lookup in (result.few_objects, result.objects):
        table.add_row(str(lookup.objects), f"{lookup.counted:.3f}", f"{lookup.read:.3f}")
    Console().print(table)
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


if __name__ == "__main__":
    main()
