"""`ssa-operator render`: prints the manifests of parents in files, without a cluster or with the answers of one.

Promises:
- The command refuses every manifest that the operator refuses, by the operator's own rules, and every object that two
  of the given parents render.
- The command names all faults at once, each with file and line, and exits with 1.
- The command renders a parent as the API server returns it: pruned, validated and with the defaults of its CRD, if
  there is a file of it. What is pruned is a warning.
- With `--live` the manifests are those that the operator would apply to the cluster now. Nothing is written.
- A comment above each YAML document names the template line that renders it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.output_option import OutputOption
from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    CrdsOfTemplates,
    Kubeconfig,
    Templates,
    Values,
    example,
    installation_of,
    namespace_of,
)
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.command_error import CommandError
from ssa_operator.operator.process.given_folders import check_folders
from ssa_operator.tools.offline.project_folders import crds_of
from ssa_operator.tools.terminal.output_format import OutputFormat

if TYPE_CHECKING:
    from ssa_operator.objects.render_result import Document
    from ssa_operator.objects.source_location import SourceLocation
    from ssa_operator.operator.operator_options import Options
    from ssa_operator.operator.process.connection import Target
    from ssa_operator.reconcile.step import Step
    from ssa_operator.rendering.folder.installation import Installation
    from ssa_operator.rendering.folder.sources import Sources
    from ssa_operator.tools.offline.offline_parent import ReturnedParent
    from ssa_operator.tools.offline.rendered_parents import RenderedParents


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator render examples/echo.yaml --as-applied"))(render)


def render(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Files or folders with parents. - is standard input.")
    ],
    templates: Templates = TEMPLATES,
    values: Values = None,
    crds: CrdsOfTemplates = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            envvar="SSA_OPERATOR_LIVE",
            help="Read children and lookups from the cluster, and have its API server complete the parents.",
        ),
    ] = False,
    objects: Annotated[
        list[Path] | None,
        typer.Option(
            "--objects",
            envvar="SSA_OPERATOR_OBJECTS",
            help="File or folder with objects that child and lookup find (repeatable).",
        ),
    ] = None,
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
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            envvar="SSA_OPERATOR_NAMESPACE",
            help="Namespace of parents without one. Default: default, with --live that of the kubeconfig's context.",
        ),
    ] = "",
    output: OutputOption = OutputFormat.YAML,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print the manifests of parents. Without --live the command needs no cluster."""
    from ssa_operator.operator.process.connection import Target
    from ssa_operator.tools.offline.parent_documents import read_parents

    check_folders(templates)
    crd_folders = crds_of(templates, crds)
    namespace = namespace_of(namespace)
    if live and objects:
        raise CommandError("--live reads the cluster, and --objects replaces it; use one of them", code=2)
    parents = read_parents(files)
    if live:
        target = Target(kubeconfig=kubeconfig, context=context)
        found = _render_live(parents, templates, installation_of(values), namespace, target)
    else:
        from ssa_operator.rendering.folder.sources import load_all

        sources = load_all(templates, installation=installation_of(values, namespace=""))
        found = _render_offline(parents, sources, crd_folders, objects or (), namespace or "default")
    _print(found.steps, output, as_applied)
    for wait in found.waits:
        # A comment in YAML. JSON has no comments, so it goes to standard error.
        (streams.error if output is OutputFormat.JSON else streams.line)(f"# {wait}")
    problems = [*found.problems, *(found.waits if strict else ())]
    if problems:
        raise CommandError("\n".join(problems))


def _render_offline(
    parents: Sequence[Document],
    sources: Sources,
    crds: Sequence[Path],
    objects: Sequence[Path],
    namespace: str,
) -> RenderedParents:
    from ssa_operator.tools.offline.offline_cluster import OfflineCluster, live_objects
    from ssa_operator.tools.offline.offline_parent import RefusedParentError
    from ssa_operator.tools.offline.parent_documents import read_objects
    from ssa_operator.tools.offline.rendered_parents import RenderedParents
    from ssa_operator.tools.offline.template_folders import cluster_scoped, read_crd_kinds

    kinds = read_crd_kinds(crds)
    now = time.time()
    offline = OfflineCluster(
        sources=sources,
        kinds=kinds,
        namespace=namespace,
        objects=live_objects(read_objects(objects), cluster_scoped(kinds), namespace),
        now=now,
    )
    found = RenderedParents(now=now)
    found.problems += [str(problem) for problem in sources.problems]
    for parent in parents:
        try:
            each = offline.render(parent)
        except RefusedParentError as error:
            found.problems += error.lines
            _warn(error.created)
        except CommandError as error:
            found.problems.append(f"{parent.location}: {error}")
        else:
            found.add(each.observed, each.rendered, each.steps, each.problems)
            _warn(each.created)
    return found


def _warn(created: ReturnedParent) -> None:
    """Name what the API server removes from a parent, and what can't be checked without it."""
    for pruned in created.pruned:
        streams.error(f"warning: {pruned}")
    for unchecked in created.unchecked:
        streams.error(f"note: {unchecked}")


def _render_live(
    parents: Sequence[Document],
    templates: Sequence[Path],
    installation: Installation,
    namespace: str,
    target: Target,
) -> RenderedParents:
    from ssa_operator.operator.operator_options import Options
    from ssa_operator.operator.process import connection

    options = Options(templates=tuple(templates), installation=installation)
    return connection.run(_plan_live(parents, options, namespace, target), code=1)


async def _plan_live(parents: Sequence[Document], options: Options, namespace: str, target: Target) -> RenderedParents:
    from ssa_operator.reconcile.plan import steps_of
    from ssa_operator.tools.connection.watched_namespaces import namespaces_of_documents
    from ssa_operator.tools.offline.rendered_parents import RenderedParents
    from ssa_operator.tools.plan import previews

    found = RenderedParents(now=time.time())

    def needed(default: str) -> Sequence[str]:
        return namespaces_of_documents(parents, namespace or default)

    async with previews.opened(target, options, needed) as opened:
        for named in await previews.parents_of_files(opened, parents, namespace):
            planned = await opened.preview.plan_applied(named.parent)
            hooks = steps_of(planned.observed, planned.rendered.finalizing)
            standing = [step for step in planned.plan.steps if step.location is not None]
            problems = [*planned.rendered.problems, *await opened.preview.status_problems(planned)]
            found.add(planned.observed, planned.rendered, [*standing, *hooks], problems)
    return found


def _print(steps: Iterable[Step], output: OutputFormat, as_applied: bool) -> None:
    from ssa_operator.tools.terminal import printing

    manifests = [(step.identity, step.manifest) for step in steps if step.manifest is not None]
    if output is OutputFormat.TABLE:
        rows = [
            (identity.kind, identity.namespace, identity.name, _line(manifest.document.location))
            for identity, manifest in manifests
        ]
        printing.table(("KIND", "NAMESPACE", "NAME", "TEMPLATE"), rows)
        return
    bodies = [manifest.body if as_applied else manifest.document.body for _, manifest in manifests]
    comments = [str(manifest.document.location) for _, manifest in manifests]
    printing.objects(bodies, output, comments)


def _line(location: SourceLocation) -> str:
    return f"{location.file}:{location.line}"
