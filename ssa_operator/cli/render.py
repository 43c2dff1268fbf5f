"""`ssa-operator render`: the manifests of a parent, without a cluster.

Promises:
- A manifest that the operator would refuse is refused, by the operator's own rules, and so is an object that two
  parents of one call render. Every fault is named at once, with its file and line, and the exit code is 1.
- A parent is rendered as the API server would return it: with the defaults of its CRD, if there is a file of it.
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
    Format,
    Output,
    Templates,
    check_folders,
    crds_of,
    example,
)

if TYPE_CHECKING:
    from ssa_operator.cli.template_folders import Known
    from ssa_operator.core.objects.identity import GroupKind, Identity
    from ssa_operator.core.objects.render_result import Document, Rendered
    from ssa_operator.core.objects.source_location import SourceLocation
    from ssa_operator.core.planning.observed import Observed
    from ssa_operator.core.planning.step import Step
    from ssa_operator.rendering.folder.sources import Folder, Sources

OFFLINE_UID = "00000000-0000-0000-0000-000000000000"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator render examples/echo.yaml --as-applied"))(render)


def render(
    files: Annotated[list[Path], typer.Argument(help="Files with parents; - for standard input.")],
    templates: Templates = TEMPLATES,
    crds: CrdsOfTemplates = None,
    as_applied: Annotated[
        bool,
        typer.Option(
            "--as-applied",
            envvar="SSA_OPERATOR_AS_APPLIED",
            help="As they are sent: with labels, owner references and namespace.",
        ),
    ] = False,
    strict: Annotated[
        bool, typer.Option("--strict", envvar="SSA_OPERATOR_STRICT", help="Fail where a document would wait.")
    ] = False,
    output: Format = Output.YAML,
) -> None:
    """Print the manifests that the templates give for parents, offline."""
    from ssa_operator.cli.template_folders import cluster_scoped, kinds_of
    from ssa_operator.rendering.folder.object_files import FileError
    from ssa_operator.rendering.folder.sources import load_all

    check_folders(templates)
    sources = load_all(templates)
    kinds = kinds_of(crds or crds_of(templates))
    call = _Call(sources=sources, kinds=kinds, cluster_scoped=cluster_scoped(kinds), now=time.time())
    try:
        parents = _parents(files)
    except FileError as error:
        raise CommandError("\n".join(map(str, error.problems))) from error
    if not parents:
        raise CommandError("there is no object in " + ", ".join(map(str, files)))
    problems = [str(problem) for problem in sources.problems]
    for parent in parents:
        try:
            call.render(parent)
        except CommandError as error:
            problems.append(f"{parent.location}: {error}")
    _print(call.steps, output, as_applied)
    for wait in call.waits:
        # A comment in YAML; in JSON there are none, and standard output stays data.
        typer.echo(f"# {wait}", err=output is Output.JSON)
    problems += call.problems
    if strict:
        problems += call.waits
    if problems:
        raise CommandError("\n".join(problems))


@dataclass(slots=True, kw_only=True)
class _Call:
    """What the files say, and what they give for one parent after the other.

    steps: those of the manifests that would be applied. problems, waits: in words, what is wrong and what waits.
    claims: the parent that each object was first rendered for.
    """

    sources: Sources
    kinds: Mapping[GroupKind, Known]
    cluster_scoped: frozenset[GroupKind]
    now: float
    steps: list[Step] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    claims: dict[Identity, Identity] = field(default_factory=dict)

    def render(self, parent: Document) -> None:
        """Take in what the folder of a parent gives for it. Raises CommandError where there is no such folder."""
        from ssa_operator.cli.template_folders import folder_of
        from ssa_operator.core.objects.cluster_view import OfflineClusterView
        from ssa_operator.core.planning.plan import steps_of
        from ssa_operator.rendering.determinism import verified
        from ssa_operator.rendering.render import render as render_folder
        from ssa_operator.rendering.render import render_status

        folder = folder_of(parent.body, self.sources, self.kinds)
        body = self._as_returned(parent, folder)
        world = OfflineClusterView(now=self.now, cluster_scoped=self.cluster_scoped)
        rendered = verified(folder, body, world, render_folder(folder, body, world))
        faults = (*rendered.problems, *render_status(folder, body, world).problems)
        problems = list(dict.fromkeys(map(str, faults)))
        waits = [f"{wait.location}: a document is {wait}" for wait in rendered.waits if wait.identity is None]
        observed = self._observed(body, rendered, cluster_scope=folder.settings.cluster_scope)
        for step in (*steps_of(observed, rendered.standing), *steps_of(observed, rendered.finalizing)):
            self._take(step, problems, waits)
            self.claims.setdefault(step.identity, observed.parent.identity)
        who = f"{body['kind']} {body['metadata']['name']}"
        self.problems += [f"{problem} (for {who})" for problem in problems]
        self.waits += [f"{wait} (for {who})" for wait in waits]

    def _take(self, step: Step, problems: list[str], waits: list[str]) -> None:
        from ssa_operator.core.planning.step import Action

        if step.action is Action.REFUSE:
            problems.append(f"{step.location}: {step.identity} {step.reason}")
        elif step.action is Action.WAIT:
            waits.append(f"{step.location}: {step.identity} is {step.reason}")
        else:
            self.steps.append(step)
            # What it says is known; only its turn has to come.
            awaited = [str(edge) for edge in step.after] + [f"{child} to be ready" for child, _ in step.missing]
            if awaited:
                waits.append(f"{step.location}: {step.identity} is waiting for {' and '.join(awaited)}")

    def _as_returned(self, parent: Document, folder: Folder) -> dict[str, Any]:
        """The parent as an API server might return it: just made and defaulted, in a namespace if its kind has one."""
        from ssa_operator.cli.template_folders import returned
        from ssa_operator.core.objects.manifest import group_kind
        from ssa_operator.core.status.conditions import timestamp

        metadata = {
            "uid": OFFLINE_UID,
            "generation": 1,
            "resourceVersion": "0",
            "creationTimestamp": timestamp(self.now),
        }
        if group_kind(parent) not in self.cluster_scoped:
            metadata["namespace"] = "default"
        body = returned(parent.body, folder, self.kinds)
        return {**body, "metadata": {**metadata, **body["metadata"]}}

    def _observed(self, body: dict[str, Any], rendered: Rendered, *, cluster_scope: bool) -> Observed:
        """A cluster that has every kind, and no object but the parents before this one and what they claim."""
        from ssa_operator.core.objects.live_object import LiveObject
        from ssa_operator.core.objects.manifest import group_kind
        from ssa_operator.core.planning.observed import KindState, Observed, ObservedChildren, ObservedParents
        from ssa_operator.core.policies.parent_records import identity_key

        parent = LiveObject.of(body)
        named = {group_kind(document) for document in rendered.documents}
        named |= {wait.identity.group_kind for wait in rendered.waits if wait.identity is not None}
        others = {identity: owner for identity, owner in self.claims.items() if owner != parent.identity}
        return Observed(
            parent=parent,
            children=ObservedChildren(
                objects={},
                own=(),
                kinds={kind: KindState(namespaced=kind not in self.cluster_scoped, synced=True) for kind in named},
            ),
            parents=ObservedParents(
                existing={identity_key(owner): owner for owner in others.values()},
                claims={identity: identity_key(owner) for identity, owner in others.items()},
            ),
            cluster_scope=cluster_scope,
            now=self.now,
        )


def _print(steps: Iterable[Step], output: Output, as_applied: bool) -> None:
    from ssa_operator.cli import printing

    found = [(step, step.manifest) for step in steps if step.manifest is not None]
    if output is Output.TABLE:
        rows = [
            (step.identity.kind, step.identity.namespace, step.identity.name, _line(made.document.location))
            for step, made in found
        ]
        printing.table(("KIND", "NAMESPACE", "NAME", "TEMPLATE"), rows)
    else:
        printing.objects([made.body if as_applied else made.document.body for _, made in found], output)


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
