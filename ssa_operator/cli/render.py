"""`ssa-operator render`: the manifests of a parent, without a cluster."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.failure import CommandError
from ssa_operator.cli.parameters import Crds, Format, Output, Templates, example

if TYPE_CHECKING:
    from ssa_operator.cli.folders import Known
    from ssa_operator.core.identity import GroupKind
    from ssa_operator.core.rendered import Document
    from ssa_operator.rendering.sources import Folder

OFFLINE_UID = "00000000-0000-0000-0000-000000000000"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator render examples/echo.yaml --as-applied"))(render)


def render(
    files: Annotated[list[Path], typer.Argument(help="Files with parents; - for standard input.")],
    templates: Templates = Path("templates"),
    crds: Crds = Path("crds"),
    as_applied: Annotated[
        bool, typer.Option("--as-applied", help="As they are sent: with labels, owner references and namespace.")
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail where a document would wait.")] = False,
    output: Format = Output.YAML,
) -> None:
    """Print the manifests that the templates give for parents, offline."""
    from ssa_operator.cli import printing
    from ssa_operator.cli.folders import folder_of, kinds_of
    from ssa_operator.core.manifest import ManifestError
    from ssa_operator.core.world import Offline
    from ssa_operator.rendering.files import FileError
    from ssa_operator.rendering.render import render as render_folder
    from ssa_operator.rendering.sources import load

    sources = load(templates)
    kinds = kinds_of(crds)
    manifests: list[dict[str, Any]] = []
    problems = [str(problem) for problem in sources.problems]
    waits: list[str] = []
    try:
        parents = _parents(files)
    except FileError as error:
        raise CommandError("\n".join(map(str, error.problems))) from error
    for parent in parents:
        folder = folder_of(parent.body, sources, kinds)
        body = _as_returned(parent, kinds)
        rendered = render_folder(folder, body, Offline(now=time.time()))
        who = f"{body['kind']} {body['metadata']['name']}"
        problems.extend(f"{problem} (for {who})" for problem in rendered.problems)
        waits.extend(f"{wait.place}: {wait.identity or 'a document'} is {wait} (for {who})" for wait in rendered.waits)
        for document in rendered.documents:
            try:
                manifests.append(_applied(document, body, folder, kinds) if as_applied else dict(document.body))
            except ManifestError as error:
                problems.append(f"{document.place}: {document.body['kind']} {error} (for {who})")
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
