"""`ssa-operator graph`: shows which manifests of a parent wait for which, and the fields that they read.

Promises:
- A graph of a file or of a kind needs no cluster.
- A cycle is shown as such, and the exit code is 1, as for a template that fails.
- No output has a Secret's content.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.cli.completed_names import objects
from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    CrdsOfTemplates,
    Examples,
    Filename,
    Kubeconfig,
    Namespace,
    Templates,
    Values,
)
from ssa_operator.operator.process.option_values import check_folders, installation_of, namespace_of
from ssa_operator.operator.process.streams import CommandError


class GraphFormat(StrEnum):
    """The format of a graph."""

    TEXT = "text"
    MERMAID = "mermaid"
    DOT = "dot"
    SVG = "svg"
    JSON = "json"
    YAML = "yaml"


EXAMPLE = "ssa-operator graph examples/echo.yaml --output svg > echo.svg"


def graph(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND|FILE|KIND/NAME",
            autocompletion=objects,
            help="A kind, a file with a parent (- is standard input), or a live parent.",
        ),
    ] = None,
    filename: Filename = None,
    templates: Templates = TEMPLATES,
    values: Values = None,
    crds: CrdsOfTemplates = None,
    examples: Examples = None,
    namespace: Namespace = "",
    output: Annotated[GraphFormat, typer.Option("--output", "-o", help="Output format.")] = GraphFormat.TEXT,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show which manifests of a parent wait for which.

    Edges have the fields that a manifest reads. A file and a kind need no cluster. The manifests of a live parent have
    the states of its children.
    """
    from ssa_operator.tools.command_target import parse_reference
    from ssa_operator.tools.graph import drawn_graph
    from ssa_operator.tools.offline.documents import given_files
    from ssa_operator.tools.offline.project import crds_of, examples_of

    check_folders(templates)
    given = given_files(what, filename, "name what to draw: KIND, FILE, -f FILE, or KIND/NAME")
    within = namespace_of(namespace)
    files = drawn_graph.GraphFiles(
        templates=templates,
        crds=crds_of(templates, crds),
        examples=examples_of(examples, templates),
        installation=installation_of(values, namespace=""),
    )
    if filename or drawn_graph.is_file(given):
        graphs = drawn_graph.graphs_of_files([Path(each) for each in given], files)
    elif len(given) == 1 and "/" not in given[0]:
        graphs = [drawn_graph.graph_of_kind(given[0], files)]
    else:
        from ssa_operator.operator.operator_options import Options
        from ssa_operator.operator.process import connection
        from ssa_operator.tools.command_target import cluster_target
        from ssa_operator.tools.graph.drawn_graph import live_graph

        options = Options(
            templates=tuple(templates), installation=installation_of(values), namespaces=(within,) if within else ()
        )
        target = cluster_target(kubeconfig, context)
        graphs = [connection.run(live_graph(parse_reference(given), options, within, target))]
    drawn_graph.print_graphs(graphs, output.value)
    problems = [problem for each in graphs for problem in each.problems]
    if problems:
        raise CommandError("\n".join(problems))
