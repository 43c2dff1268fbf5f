"""`ssa-operator lsp`: a language server for templates, which an editor starts.

Promises:
- It speaks the Language Server Protocol over standard input and output, and needs no cluster.
- An API server of its own ends with it, whatever ends it.
- Without the extra `lsp`, the command says what to install, and the exit code is 2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.cli.shared_options import APIServerOption, APIServerUse, CrdsOfTemplates, Examples, Values
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.operator.process.option_values import check_folders, installation_of
from ssa_operator.operator.process.streams import CommandError

EXAMPLE = "ssa-operator lsp"


def lsp(
    templates: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder with one template folder for each resource (repeatable). Default: the folder templates above "
            "or beside each file."
        ),
    ] = None,
    values: Values = None,
    crds: CrdsOfTemplates = None,
    examples: Examples = None,
    kubernetes: Annotated[
        str, typer.Option(metavar="VERSION", help="Check manifests against this version of Kubernetes.")
    ] = KUBERNETES_VERSION,
    api_server: APIServerOption = APIServerUse.AUTO,
    stdio: Annotated[  # noqa: ARG001 - there is no other transport
        bool, typer.Option("--stdio", help="Accepted because some editors name the transport; there is no other.")
    ] = True,
) -> None:
    """Serve an editor: a language server for templates, over standard input and output.

    An editor starts it, and shows what check finds while you type, with completion, hover and definitions.
    """
    from ssa_operator.tools.checks.api_server import WarmAPIServer
    from ssa_operator.tools.editor.edited_project import ProjectOptions
    from ssa_operator.tools.schema_rules import bundled_schemas

    try:
        from ssa_operator.tools.editor import server
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        raise CommandError(
            f"lsp needs a library ({error}); install it with: pip install 'ssa-operator[lsp]'", code=2
        ) from error
    check_folders(templates or (), note_empty=False)
    options = ProjectOptions(
        schemas=bundled_schemas(kubernetes.removeprefix("v")),
        installation=installation_of(values, namespace=""),
        templates=[each.resolve() for each in templates or ()],
        crds=crds,
        examples=examples,
    )
    asked = WarmAPIServer(options.schemas.version) if api_server is APIServerUse.AUTO else None
    raise typer.Exit(server.serve(options, asked))
