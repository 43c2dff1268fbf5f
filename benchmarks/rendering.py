"""The cost of rendering a manifest, beside the usual ways: Jinja to text, and the text parsed by libyaml (as kluctl and
Ansible do); Go's text/template to text, and the text parsed by sigs.k8s.io/yaml (as Helm does).

Promises:
- All render the same manifests for the same parents, in turns within one run; the manifests are compared first.
- A figure is CPU time for one manifest, in microseconds, best read as the ratio to another way. For Python it is that
  of this thread, for Go that of the process while it renders, whose garbage collector has threads of its own.
- Without a Go its way is left out.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import msgspec
import yaml

from benchmarks import builds, workload
from benchmarks.machine import Spread
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import Rules, manifest
from ssa_operator.rendering.render import render

Parent = dict[str, Any]
Manifests = list[Any]

_RULES = Rules(namespaced=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """The result; microseconds of CPU a manifest.

    render: `ssa_operator.rendering`. prepared: the same and everything up to the request's body, which is labels,
    owner reference, normalisation, encoding and digest. text: Jinja's text through CSafeLoader. go: text/template's
    text through sigs.k8s.io/yaml. ratio, ratio_to_go: render to these.
    """

    parents: int
    manifests: int
    render: Spread
    prepared: Spread
    text: Spread
    go: Spread | None
    ratio: Spread
    ratio_to_go: Spread | None


def measure(templates: Path, *, parents: int, rounds: int) -> Rendering:
    """Render `parents` Echos in each of the rounds, each way. `templates` is of `workload.write_templates`.

    Raises ValueError if the ways don't give the same manifests, and builds.BuildError.
    """
    folder = workload.load_folder(templates)
    objects = [_parent(number) for number in range(parents)]
    lives = [LiveObject.of(each) for each in objects]
    render_text = _text_renderer(templates)

    def render_ours(parent: Parent) -> Manifests:
        return [document.body for document in render(folder, parent).documents]

    def prepare(parent: LiveObject) -> Manifests:
        return [manifest(document, parent, _RULES).encoded for document in render(folder, parent.body).documents]

    first = _same(render_ours(objects[0]), render_text(objects[0]))
    manifests = parents * len(first)
    ways: list[Callable[[], float]] = [
        lambda: _cpu(lambda: list(map(render_ours, objects))) / manifests,
        lambda: _cpu(lambda: list(map(prepare, lives))) / manifests,
        lambda: _cpu(lambda: list(map(render_text, objects))) / manifests,
    ]
    go = _go_renderer(objects, first)
    if go is not None:
        ways.append(go)
    for way in ways:
        way()
    taken: list[list[float]] = [[] for _ in ways]
    for turn in range(rounds):
        for position in range(len(ways)):
            index = (turn + position) % len(ways)
            taken[index].append(ways[index]())
    ours, prepared, text, *rest = taken
    return Rendering(
        parents=parents,
        manifests=len(first),
        render=Spread.of(ours),
        prepared=Spread.of(prepared),
        text=Spread.of(text),
        go=next(map(Spread.of, rest), None),
        ratio=_ratio(ours, text),
        ratio_to_go=next((_ratio(ours, each) for each in rest), None),
    )


def _ratio(ours: Sequence[float], others: Sequence[float]) -> Spread:
    return Spread.of(one / other for one, other in zip(ours, others, strict=True))


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


class _Rendered(msgspec.Struct):
    """The output of the Go program."""

    manifests: Manifests
    microseconds: list[float]


def _go_renderer(parents: Sequence[Parent], wanted: Manifests) -> Callable[[], float] | None:
    """Renders the parents twice, the first time to warm up; gives the microseconds of a manifest. None without a Go."""
    sources = Path(__file__).parent / "peers" / "go-templates"
    version = builds.version(sources / "go.mod", r"sigs.k8s.io/yaml v(\S+)")
    try:
        program = builds.go_program(sources, version)
    except FileNotFoundError:
        return None
    given = msgspec.json.encode(parents)

    def render_all() -> float:
        ended = subprocess.run([program, "2"], input=given, capture_output=True, check=True)
        rendered = msgspec.json.decode(ended.stdout, type=_Rendered)
        _same(wanted, rendered.manifests)
        return rendered.microseconds[-1]

    return render_all


def _same(first: Manifests, other: Manifests) -> Manifests:
    if other != first:
        raise ValueError("the ways to render don't give the same manifests, so their times can't be compared")
    return first


def _cpu(way: Callable[[], Sequence[Any]]) -> float:
    """Microseconds of CPU of this thread."""
    before = time.thread_time()
    way()
    return (time.thread_time() - before) * 1e6
