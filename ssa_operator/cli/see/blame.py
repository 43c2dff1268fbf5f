"""`ssa-operator blame`: shows the live children of a parent, each field with its writer.

Promises:
- Every line with a value names its writer: the template line and the value's origin, another field manager, or the API
  server.
- The command renders the templates as the operator does, with the cluster's answers, and writes nothing.
- No output has a Secret's content.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from ssa_operator.cli.completed_names import objects
from ssa_operator.cli.shared_options import TEMPLATES, Context, Kubeconfig, Namespace, Templates, Values
from ssa_operator.operator.process.option_values import check_folders, installation_of, namespace_of
from ssa_operator.operator.process.streams import CommandError


class BlameFormat(StrEnum):
    """The format of the output."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


EXAMPLE = "ssa-operator blame echo/hello deployment/hello -n default"


def blame(
    objects: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND/NAME [KIND/NAME]",
            autocompletion=objects,
            help="A parent and one of its children, or one of them. Default: all children.",
        ),
    ],
    templates: Templates = TEMPLATES,
    values: Values = None,
    namespace: Namespace = "",
    output: Annotated[BlameFormat, typer.Option("--output", "-o", help="Output format.")] = BlameFormat.TEXT,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show who wrote each field of a parent's children.

    The children are YAML, and in front of each line is its writer: the template line and the origin of the value, or
    another field manager, or the API server.
    """
    import time

    from ssa_operator.operator.operator_options import Options
    from ssa_operator.operator.process import connection
    from ssa_operator.operator.process.streams import OutputFormat
    from ssa_operator.tools import printing
    from ssa_operator.tools.blamed_object import blamed_objects, print_text
    from ssa_operator.tools.command_target import cluster_target, parse_chain

    check_folders(templates)
    within = namespace_of(namespace)
    chain = parse_chain(objects)
    if len(chain) > 2:
        raise CommandError(f"{' '.join(objects)!r} names {len(chain)} objects; name a parent and one child", code=2)
    target = cluster_target(kubeconfig, context)
    options = Options(
        templates=tuple(templates), installation=installation_of(values), namespaces=(within,) if within else ()
    )
    found = connection.run(blamed_objects(chain, options, within, target))
    if output is BlameFormat.TEXT:
        print_text(found, time.time())
    else:
        printing.data([each.data() for each in found], OutputFormat(output.value))
