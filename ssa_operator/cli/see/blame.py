"""`ssa-operator blame`: shows the live children of a parent, each field with its writer.

Promises:
- Every line with a value names its writer: the template line and the value's origin, another field manager, or the API
  server.
- The command renders the templates as the operator does, with the cluster's answers, and writes nothing.
- No output has a Secret's content.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.shared_options import TEMPLATES, Context, Kubeconfig, Namespace, Templates, Values, example
from ssa_operator.operator.process.command_error import CommandError
from ssa_operator.operator.process.option_values import check_folders, installation_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from ssa_operator.operator.process.connection import Target
    from ssa_operator.rendering.folder.installation import Installation
    from ssa_operator.tools.blame.blamed_object import BlamedObject
    from ssa_operator.tools.connection.object_reference import ObjectReference


class BlameFormat(StrEnum):
    """The format of the output."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator blame echo/hello deployment/hello -n default"))(blame)


def blame(
    objects: Annotated[
        list[str],
        typer.Argument(
            metavar="KIND/NAME [KIND/NAME]", help="A parent, and one of its children. Default: all children."
        ),
    ],
    templates: Templates = TEMPLATES,
    values: Values = None,
    namespace: Namespace = "",
    output: Annotated[
        BlameFormat, typer.Option("--output", "-o", envvar="SSA_OPERATOR_OUTPUT", help="Output format.")
    ] = BlameFormat.TEXT,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show who wrote each field of a parent's children.

    The children are YAML, and in front of each line is its writer: the template line and the origin of the value, or
    another field manager, or the API server.
    """
    from ssa_operator.operator.process import connection
    from ssa_operator.tools.connection.object_reference import parse_chain

    check_folders(templates)
    within = namespace_of(namespace)
    chain = parse_chain(objects)
    if len(chain) > 2:
        raise CommandError(f"{' '.join(objects)!r} names {len(chain)} objects; name a parent and one child", code=2)
    target = connection.Target(kubeconfig=kubeconfig, context=context)
    found = connection.run(_blamed(chain, templates, installation_of(values), within, target))
    _print(found, output)


async def _blamed(
    chain: Sequence[ObjectReference],
    templates: Sequence[Path],
    installation: Installation,
    namespace: str,
    target: Target,
) -> list[BlamedObject]:
    from ssa_operator.operator.operator_options import Options
    from ssa_operator.tools.blame.blamed_object import blamed_children, select_child
    from ssa_operator.tools.plan import previews

    options = Options(
        templates=tuple(templates), installation=installation, namespaces=(namespace,) if namespace else ()
    )
    async with previews.opened(target, options) as opened:
        (named,) = await previews.parents_of_references(opened, chain[:1], namespace)
        children = await blamed_children(opened.preview, named.parent)
        if len(chain) == 1:
            return children
        return [select_child(children, chain[1], await opened.mapper.resources(), named.parent.live.identity)]


def _print(found: Iterable[BlamedObject], output: BlameFormat) -> None:
    from ssa_operator.operator.process.output_formats import OutputFormat
    from ssa_operator.tools.terminal import printing

    if output is BlameFormat.TEXT:
        from ssa_operator.tools.blame.blame_text import print_text

        print_text([*found])
    else:
        data: list[Any] = [each.data() for each in found]
        printing.data(data, OutputFormat(output.value))
