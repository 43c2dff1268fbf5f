"""`ssa-operator render`: the manifests of a parent, without a cluster."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.failure import CommandError
from ssa_operator.cli.parameters import Crds, Format, Output, Templates, example

if TYPE_CHECKING:
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
    output: Format = Output.YAML,
) -> None:
    """Print the manifests that the templates give for parents, offline."""
    from ssa_operator.cli import printing
    from ssa_operator.cli.folders import folder_of, kinds_of
    from ssa_operator.core.manifest import ManifestError
    from ssa_operator.rendering.files import FileError
    from ssa_operator.rendering.render import render as render_folder
    from ssa_operator.rendering.sources import load

    sources = load(templates)
    kinds = kinds_of(crds)
    manifests: list[dict[str, Any]] = []
    problems = [str(problem) for problem in sources.problems]
    try:
        parents = _parents(files)
    except FileError as error:
        raise CommandError("\n".join(map(str, error.problems))) from error
    for parent in parents:
        folder = folder_of(parent.body, sources, kinds)
        body = _as_returned(parent)
        rendered = render_folder(folder, body)
        problems.extend(str(problem) for problem in rendered.problems)
        for document in rendered.documents:
            try:
                manifests.append(_applied(document, body, folder, kinds) if as_applied else dict(document.body))
            except ManifestError as error:
                problems.append(f"{document.place}: {error}")
    if manifests:
        printing.objects(manifests, output)
    if problems:
        raise CommandError("\n".join(problems))
    if not parents:
        raise CommandError("there is no object in " + ", ".join(map(str, files)))


def _parents(files: list[Path]) -> list[Document]:
    from ssa_operator.rendering.files import load_objects, objects

    return [
        document
        for path in files
        for document in (objects(sys.stdin.read(), "standard input") if str(path) == "-" else load_objects([path]))
    ]


def _as_returned(parent: Document) -> dict[str, Any]:
    """The parent as an API server might return it: with a uid and a generation, in a namespace."""
    defaults = {"uid": OFFLINE_UID, "generation": 1, "namespace": "default", "resourceVersion": "0"}
    return {**parent.body, "metadata": {**defaults, **parent.body["metadata"]}}


def _applied(document: Document, parent: dict[str, Any], folder: Folder, kinds: Any) -> dict[str, Any]:
    from ssa_operator.cli.folders import namespaced
    from ssa_operator.core.live import Live
    from ssa_operator.core.manifest import Rules, group_kind, manifest

    rules = Rules(namespaced=namespaced(group_kind(document), kinds), cluster_scope=folder.settings.cluster_scope)
    return dict(manifest(document, Live.of(parent), rules).body)
