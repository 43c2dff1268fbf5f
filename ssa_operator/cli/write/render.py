"""`ssa-operator render`: prints the manifests of parents in files, without a cluster or with the answers of one.

Promises:
- The command refuses every manifest that the operator refuses, by the operator's own rules, and every object that two
  of the given parents render.
- The command names all faults at once, each with file and line, and exits with 1.
- The command renders a parent as the API server returns it: pruned, validated and with the defaults of its CRD, if
  there is a file of it. What is pruned is a warning.
- With `--live`, and for a parent of the cluster, the manifests are those that the operator would apply now. Nothing is
  written.
- A comment above each YAML document names the template line that renders it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.completed_names import namespaces, objects
from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    CrdsOfTemplates,
    Filename,
    Kubeconfig,
    OutputOption,
    Revision,
    Templates,
    Values,
)
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.option_values import check_folders, installation_of, namespace_of
from ssa_operator.operator.process.streams import CommandError, OutputFormat

if TYPE_CHECKING:
    from ssa_operator.reconcile.child import Child


EXAMPLE = "ssa-operator render examples/echo.yaml --as-applied"


def render(
    parents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE...|KIND/NAME...",
            autocompletion=objects,
            help="Files or folders with parents (- is standard input), or parents in the cluster, which imply --live.",
        ),
    ] = None,
    filename: Filename = None,
    templates: Templates = TEMPLATES,
    values: Values = None,
    revision: Revision = None,
    crds: CrdsOfTemplates = None,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Read children and lookups from the cluster, and have its API server complete the parents."
        ),
    ] = False,
    objects: Annotated[
        list[Path] | None,
        typer.Option("--objects", help="File or folder with objects that child and lookup find (repeatable)."),
    ] = None,
    as_applied: Annotated[
        bool,
        typer.Option(
            "--as-applied",
            help="Print the manifests as the operator applies them: with labels, owner references and namespace.",
        ),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if a document would wait.")] = False,
    namespace: Annotated[
        str,
        typer.Option(
            "--namespace",
            "-n",
            help="Namespace of parents without one. Default: default, with --live that of the kubeconfig's context.",
            autocompletion=namespaces,
        ),
    ] = "",
    output: OutputOption = OutputFormat.YAML,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print the manifests of parents. Parents in files need no cluster without --live."""
    from ssa_operator.tools.offline.documents import are_files, given_files, read_parents
    from ssa_operator.tools.offline.project import crds_of

    check_folders(templates)
    crd_folders = crds_of(templates, crds)
    namespace = namespace_of(namespace)
    given = given_files(parents, filename, "name the parents to render: FILE, -f FILE, or KIND/NAME")
    of_cluster = not are_files(given)
    if (live or of_cluster) and objects:
        named = f"{given[0]} is in the cluster" if of_cluster else "--live reads the cluster"
        raise CommandError(f"{named}, and --objects replaces it; use one of them", code=2)
    installation = installation_of(values, None if live or of_cluster else "")
    with contextlib.ExitStack() as stack:
        if live or of_cluster or revision is not None:
            from ssa_operator.operator.operator_options import Options
            from ssa_operator.operator.process import connection
            from ssa_operator.tools.command_target import cluster_target
            from ssa_operator.tools.plan.previews import rendered_live
            from ssa_operator.tools.rollouts.stored_rollouts import with_revision

            options = Options(templates=tuple(templates), installation=installation)
            target = cluster_target(kubeconfig, context)
            options = stack.enter_context(with_revision(given, options, target, revision))
            templates, installation = [*options.templates], options.installation
        if live or of_cluster:
            found = connection.run(rendered_live(given, options, namespace, target), code=1)
        else:
            from ssa_operator.rendering.folder.loaded_folders import load_all
            from ssa_operator.tools.offline.offline_cluster import rendered_offline

            sources = load_all(templates, installation=installation)
            found = rendered_offline(read_parents(given), sources, crd_folders, objects or (), namespace or "default")
    _print(found.steps, output, as_applied)
    for remark in (*found.waits, *found.warnings):
        # A comment in YAML. JSON has no comments, so it goes to standard error.
        (streams.error if output is OutputFormat.JSON else streams.line)(f"# {' '.join(remark.splitlines())}")
    problems = [*found.problems, *(found.waits if strict else ())]
    if problems:
        raise CommandError("\n".join(problems))


def _print(steps: Iterable[Child], output: OutputFormat, as_applied: bool) -> None:
    from ssa_operator.tools import printing

    manifests = [(step.identity, step.manifest) for step in steps if step.manifest is not None]
    if output is OutputFormat.TABLE:
        lines = ((identity, manifest.document.location) for identity, manifest in manifests)
        rows = [(each.kind, each.namespace, each.name, f"{at.file}:{at.line}") for each, at in lines]
        printing.table(("KIND", "NAMESPACE", "NAME", "TEMPLATE"), rows)
        return
    bodies = [manifest.body if as_applied else manifest.document.body for _, manifest in manifests]
    comments = [str(manifest.document.location) for _, manifest in manifests]
    printing.objects(bodies, output, comments)
