"""What rendering a manifest costs, beside the usual way: Jinja to text, and the text parsed by libyaml.

Promises:
- Both render the same templates for the same parents, in turns within one run, and their manifests are compared first.
- A figure is CPU time of this thread for one manifest, in microseconds, best read as the ratio to the usual way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml

from benchmarks import workload
from benchmarks.machine import Spread
from ssa_operator.core.live import Live
from ssa_operator.core.manifest import Rules, manifest
from ssa_operator.rendering.render import render

Parent = dict[str, Any]
Manifests = list[Any]

_RULES = Rules(namespaced=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The result; microseconds of CPU a manifest.

    render: `ssa_operator.rendering`. prepared: the same and everything up to the request's body, which is labels,
    owner reference, normalisation, encoding and digest. text: Jinja's text through CSafeLoader. ratio: render to text.
    """

    parents: int
    manifests: int
    render: Spread
    prepared: Spread
    text: Spread
    ratio: Spread


def measure(templates: Path, *, parents: int, rounds: int) -> Rendering:
    """Render `parents` Echos in each of the rounds, each way. `templates` is of `workload.write_templates`.

    Raises ValueError where the ways don't give the same manifests.
    """
    folder = workload.load_folder(templates)
    objects = [_parent(number) for number in range(parents)]
    lives = [Live.of(each) for each in objects]
    render_text = _text_renderer(templates)

    def render_ours(parent: Parent) -> Manifests:
        return [document.body for document in render(folder, parent).documents]

    def prepare(parent: Live) -> Manifests:
        return [manifest(document, parent, _RULES).encoded for document in render(folder, parent.body).documents]

    count = len(_same(objects[0], render_ours, render_text))
    ways: list[Callable[[], Any]] = [
        lambda: list(map(render_ours, objects)),
        lambda: list(map(prepare, lives)),
        lambda: list(map(render_text, objects)),
    ]
    for way in ways:
        way()
    taken: list[list[float]] = [[], [], []]
    for turn in range(rounds):
        for position in range(len(ways)):
            index = (turn + position) % len(ways)
            taken[index].append(_cpu(ways[index]) / (parents * count) * 1e6)
    ours, prepared, text = taken
    return Rendering(
        parents=parents,
        manifests=count,
        render=Spread.of(ours),
        prepared=Spread.of(prepared),
        text=Spread.of(text),
        ratio=Spread.of(one / other for one, other in zip(ours, text, strict=True)),
    )


def _parent(number: int) -> Parent:
    """An Echo as the API server returns it."""
    parent = workload.echo(f"echo-{number:05}", "default", number % 10)
    parent["metadata"] |= {
        "uid": f"00000000-0000-4000-8000-{number:012}",
        "resourceVersion": str(number + 1),
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
    }
    return parent


def _text_renderer(templates: Path) -> Callable[[Parent], Manifests]:
    """The usual way: each file to text with its variables, and the text to objects."""
    folder = templates / workload.FOLDER
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder), undefined=jinja2.StrictUndefined, keep_trailing_newline=True
    )
    compiled = [environment.get_template(path.name) for path in sorted(folder.glob("[!_]*.yaml.j2"))]

    def render_text(parent: Parent) -> Manifests:
        metadata = parent["metadata"]
        variables = {
            "object": parent,
            "metadata": metadata,
            "spec": parent["spec"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
        }
        texts = [template.render(variables) for template in compiled]
        return [body for text in texts for body in yaml.load_all(text, yaml.CSafeLoader) if body is not None]

    return render_text


def _same(parent: Parent, *ways: Callable[[Parent], Manifests]) -> Manifests:
    first, *others = (way(parent) for way in ways)
    if any(other != first for other in others):
        raise ValueError("the ways to render don't give the same manifests, so their times can't be compared")
    return first


def _cpu(way: Callable[[], Sequence[Any]]) -> float:
    """Seconds of CPU that this thread needs."""
    before = time.thread_time()
    way()
    return time.thread_time() - before
