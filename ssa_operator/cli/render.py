"""`ssa-operator render`: prints the manifests of a parent without a cluster.

Promises:
- The command refuses every manifest that the operator refuses, by the operator's own rules, and every object that two
  of the given parents render.
- The command names all faults at once, each with file and line, and exits with 1.
- The command renders a parent as the API server returns it: with the defaults of its CRD, if there is a file of it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.command_error import CommandError
from ssa_operator.cli.options import (
    TEMPLATES,
    CrdsOfTemplates,
    OutputFormat,
    OutputOption,
    Templates,
    check_folders,
    crds_of,
    example,
)

if TYPE_CHECKING:
    from ssa_operator.cli.template_folders import CRDKind
    from ssa_operator.core.objects.identity import GroupKind, Identity
    from ssa_operator.core.objects.render_result import Document, Rendered
    from ssa_operator.core.objects.source_location import SourceLocation
    from ssa_operator.core.planning.observed import Observed
    from ssa_operator.core.planning.step import Step
    from ssa_operator.rendering.folder.sources import Sources


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator render examples/echo.yaml --as-applied"))(render)


def render(
    files: Annotated[list[Path], typer.Argument(help="Files with parents. - is standard input.")],
    templates: Templates = TEMPLATES,
    crds: CrdsOfTemplates = None,
    as_applied: Annotated[
        bool,
        typer.Option(
            "--as-applied",
            envvar="SSA_OPERATOR_AS_APPLIED",
            help="Print the manifests as the operator applies them: with labels, owner references and namespace.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", envvar="SSA_OPERATOR_STRICT", help="Exit with 1 if a document would wait.")
    ] = False,
    output: OutputOption = OutputFormat.YAML,
) -> None:
    """Print the manifests of parents. The command renders the templates without a cluster."""
    from ssa_operator.cli.template_folders import cluster_scoped, read_crd_kinds
    from ssa_operator.rendering.folder.object_files import FileError
    from ssa_operator.rendering.folder.sources import load_all

    check_folders(templates)
    sources = load_all(templates)
    kinds = read_crd_kinds(crds or crds_of(templates))
    offline = _OfflineRender(sources=sources, kinds=kinds, cluster_scoped=cluster_scoped(kinds), now=time.time())
    try:
        parents = _parents(files)
    except FileError as error:
        raise CommandError("\n".join(map(str, error.problems))) from error
    if not parents:
        raise CommandError("there is no object in " + ", ".join(map(str, files)))
    problems = [str(problem) for problem in sources.problems]
    for parent in parents:
        try:
            offline.render(parent)
        except CommandError as error:
            problems.append(f"{parent.location}: {error}")
    _print(offline.steps, output, as_applied)
    for wait in offline.waits:
        # A comment in YAML. JSON has no comments, so it goes to standard error.
        typer.echo(f"# {wait}", err=output is OutputFormat.JSON)
    problems += offline.problems
    if strict:
        problems += offline.waits
    if problems:
        raise CommandError("\n".join(problems))


@dataclass(slots=True, kw_only=True)
class _OfflineRender:
    """The results of rendering one parent after the other."""

    sources: Sources

    kinds: Mapping[GroupKind, CRDKind]

    cluster_scoped: frozenset[GroupKind]

    now: float

    steps: list[Step] = field(default_factory=list)
    """The steps of the manifests that the operator would apply."""

    problems: list[str] = field(default_factory=list)

    waits: list[str] = field(default_factory=list)
    """The documents that would wait, with the objects that they wait for."""

    claims: dict[Identity, Identity] = field(default_factory=dict)
    """The first parent that renders each object."""

    def render(self, parent: Document) -> None:
        """Add the results of one parent. Raises CommandError if it has no template folder."""
        from ssa_operator.cli.offline_parent import as_created
        from ssa_operator.cli.template_folders import find_folder
        from ssa_operator.core.objects.cluster_view import OfflineClusterView
        from ssa_operator.core.planning.plan import steps_of
        from ssa_operator.rendering.determinism import verified
        from ssa_operator.rendering.render import render as render_folder
        from ssa_operator.rendering.render import render_status

        folder = find_folder(parent.body, self.sources, self.kinds)
        body = as_created(parent, folder, self.kinds, self.now)
        view = OfflineClusterView(now=self.now, cluster_scoped=self.cluster_scoped)
        rendered = verified(folder, body, view, render_folder(folder, body, view))
        render_problems = (*rendered.problems, *render_status(folder, body, view).problems)
        problems = list(dict.fromkeys(map(str, render_problems)))
        waits = [f"{wait.location}: a document is {wait}" for wait in rendered.waits if wait.identity is None]
        observed = self._observed(body, rendered, cluster_scope=folder.settings.cluster_scope)
        for step in (*steps_of(observed, rendered.standing), *steps_of(observed, rendered.finalizing)):
            self._add(step, problems, waits)
            self.claims.setdefault(step.identity, observed.parent.identity)
        name = f"{body['kind']} {body['metadata']['name']}"
        self.problems += [f"{problem} (for {name})" for problem in problems]
        self.waits += [f"{wait} (for {name})" for wait in waits]

    def _add(self, step: Step, problems: list[str], waits: list[str]) -> None:
        from ssa_operator.core.planning.step import Action

        if step.action is Action.REFUSE:
            problems.append(f"{step.location}: {step.identity} {step.reason}")
        elif step.action is Action.WAIT:
            waits.append(f"{step.location}: {step.identity} is {step.reason}")
        else:
            self.steps.append(step)
            # The manifest is complete, but the operator applies its dependencies first.
            dependencies = [str(edge) for edge in step.order.after] + [
                f"{child} to be ready" for child, _ in step.order.missing
            ]
            if dependencies:
                waits.append(f"{step.location}: {step.identity} is waiting for {' and '.join(dependencies)}")

    def _observed(self, body: dict[str, Any], rendered: Rendered, *, cluster_scope: bool) -> Observed:
        """A cluster that serves every kind. Its only objects are the earlier parents and what they render."""
        from ssa_operator.core.objects.live_object import LiveObject
        from ssa_operator.core.objects.manifest import group_kind
        from ssa_operator.core.planning.observed import KindState, Observed, ObservedChildren, ObservedParents
        from ssa_operator.core.policies.parent_records import identity_key

        parent = LiveObject.of(body)
        kinds = {group_kind(document) for document in rendered.documents}
        kinds |= {wait.identity.group_kind for wait in rendered.waits if wait.identity is not None}
        others = {identity: owner for identity, owner in self.claims.items() if owner != parent.identity}
        return Observed(
            parent=parent,
            children=ObservedChildren(
                objects={},
                own=(),
                kinds={kind: KindState(namespaced=kind not in self.cluster_scoped, synced=True) for kind in kinds},
            ),
            parents=ObservedParents(
                existing={identity_key(owner): owner for owner in others.values()},
                claims={identity: identity_key(owner) for identity, owner in others.items()},
            ),
            cluster_scope=cluster_scope,
            now=self.now,
        )


def _print(steps: Iterable[Step], output: OutputFormat, as_applied: bool) -> None:
    from ssa_operator.cli import printing

    manifests = [(step.identity, step.manifest) for step in steps if step.manifest is not None]
    if output is OutputFormat.TABLE:
        rows = [
            (identity.kind, identity.namespace, identity.name, _line(manifest.document.location))
            for identity, manifest in manifests
        ]
        printing.table(("KIND", "NAMESPACE", "NAME", "TEMPLATE"), rows)
    else:
        printing.objects([manifest.body if as_applied else manifest.document.body for _, manifest in manifests], output)


def _line(location: SourceLocation) -> str:
    return f"{location.file}:{location.line}"


def _parents(files: list[Path]) -> list[Document]:
    from ssa_operator.rendering.folder.object_files import load_objects, objects

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
