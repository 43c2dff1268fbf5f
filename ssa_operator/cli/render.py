"""`ssa-operator render`: the manifests of a parent, without a cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.failure import CommandError
from ssa_operator.cli.parameters import CRDS, TEMPLATES, Crds, Format, Output, Templates, example

if TYPE_CHECKING:
    from ssa_operator.cli.folders import Known
    from ssa_operator.core.identity import GroupKind, Identity
    from ssa_operator.core.rendered import Document, Wait
    from ssa_operator.rendering.sources import Folder

OFFLINE_UID = "00000000-0000-0000-0000-000000000000"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator render examples/echo.yaml --as-applied"))(render)


def render(
    files: Annotated[list[Path], typer.Argument(help="Files with parents; - for standard input.")],
    templates: Templates = TEMPLATES,
    crds: Crds = CRDS,
    as_applied: Annotated[
        bool, typer.Option("--as-applied", help="As they are sent: with labels, owner references and namespace.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail where a document would wait.")] = False,
    output: Format = Output.YAML,
) -> None:
    """Print the manifests that the templates give for parents, offline."""
    from ssa_operator.cli import printing
    from ssa_operator.cli.folders import folder_of, kinds_of
    from ssa_operator.rendering.files import FileError
    from ssa_operator.rendering.sources import load_all

    sources = load_all(templates)
    kinds = kinds_of(crds)
    manifests: list[dict[str, Any]] = []
    problems = [str(problem) for problem in sources.problems]
    waits: list[str] = []
    try:
        parents = _parents(files)
    except FileError as error:
        raise CommandError("\n".join(map(str, error.problems))) from error
    for parent in parents:
        found = _given(_as_returned(parent, kinds), folder_of(parent.body, sources, kinds), kinds, as_applied)
        manifests += found.manifests
        problems += found.problems
        waits += found.waits
    if manifests:
        printing.objects(manifests, output)
    for wait in waits:
        # A comment in YAML; in JSON there are none, and standard output stays data.
        typer.echo(f"# {wait}", err=output is Output.JSON)
    if strict:
        problems.extend(waits)
    if problems:
        raise CommandError("\n".join(problems))
    if not parents:
        raise CommandError("there is no object in " + ", ".join(map(str, files)))


@dataclass(slots=True)
class _Given:
    """What one parent's templates give: manifests, and in words what is wrong and what waits."""

    manifests: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)


def _given(body: dict[str, Any], folder: Folder, kinds: Mapping[GroupKind, Known], as_applied: bool) -> _Given:
    from ssa_operator.core.graph import graph_of
    from ssa_operator.core.manifest import ManifestError
    from ssa_operator.core.world import Offline
    from ssa_operator.rendering.determinism import verified
    from ssa_operator.rendering.render import render as render_folder

    world = Offline(now=time.time())
    rendered = verified(folder, body, world, render_folder(folder, body, world))
    graph = graph_of(rendered, partial(_placed, parent=body, kinds=kinds))
    paths = {identity: graph.path(cycle) for cycle in reversed(graph.cycles()) for identity in cycle}
    found = _Given(problems=[str(problem) for problem in rendered.problems])
    for wait in rendered.waits:
        waiting = _placed(wait.identity, body, kinds) if wait.identity else None
        if waiting not in paths:
            found.waits.append(f"{wait.place}: {waiting or 'a document'} is {wait}")
    for document in rendered.documents:
        identity = _placed(document.identity, body, kinds)
        if identity in paths:
            continue
        # What it says is known; only its turn has to come.
        if awaited := " and ".join(map(str, graph.edges[identity])):
            found.waits.append(f"{document.place}: {identity} is waiting for {awaited}")
        try:
            found.manifests.append(_applied(document, body, folder, kinds) if as_applied else dict(document.body))
        except ManifestError as error:
            found.problems.append(f"{document.place}: {document.body['kind']} {error}")
    results: tuple[Document | Wait, ...] = (*rendered.documents, *rendered.waits)
    for result in results:
        circular = _placed(result.identity, body, kinds) if result.identity else None
        if circular in paths:
            found.problems.append(f"{result.place}: {circular} is in a dependency cycle: {paths[circular]}")
    who = f"{body['kind']} {body['metadata']['name']}"
    found.problems = [f"{problem} (for {who})" for problem in found.problems]
    found.waits = [f"{wait} (for {who})" for wait in found.waits]
    return found


def _parents(files: list[Path]) -> list[Document]:
    from ssa_operator.rendering.files import load_objects, objects

    return [
        document
        for path in files
        for document in (objects(_standard_input(), "standard input") if str(path) == "-" else load_objects([path]))
    ]


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError("standard input is not UTF-8 text") from error


def _placed(identity: Identity, parent: Mapping[str, Any], kinds: Mapping[GroupKind, Known]) -> Identity:
    """An identity in the namespace that it has in a cluster."""
    from ssa_operator.cli.folders import namespaced

    if not namespaced(identity.group_kind, kinds):
        return replace(identity, namespace="")
    return identity if identity.namespace else replace(identity, namespace=parent["metadata"].get("namespace", ""))


def _as_returned(parent: Document, kinds: Mapping[GroupKind, Known]) -> dict[str, Any]:
    """The parent as an API server might return it: with a uid and a generation, in a namespace if its kind has one."""
    from ssa_operator.cli.folders import namespaced
    from ssa_operator.core.manifest import group_kind

    defaults = {"uid": OFFLINE_UID, "generation": 1, "resourceVersion": "0"}
    if namespaced(group_kind(parent), kinds):
        defaults["namespace"] = "default"
    return {**parent.body, "metadata": {**defaults, **parent.body["metadata"]}}


def _applied(
    document: Document, parent: dict[str, Any], folder: Folder, kinds: Mapping[GroupKind, Known]
) -> dict[str, Any]:
    from ssa_operator.cli.folders import namespaced
    from ssa_operator.core.live import Live
    from ssa_operator.core.manifest import Rules, group_kind, manifest

    rules = Rules(namespaced=namespaced(group_kind(document), kinds), cluster_scope=folder.settings.cluster_scope)
    return dict(manifest(document, Live.of(parent), rules).body)
