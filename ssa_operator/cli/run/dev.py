"""`ssa-operator dev`: a local cluster, the CRDs, the examples and the operator in one terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.cli.shared_options import (
    CRDS,
    LISTEN,
    TEMPLATES,
    Crds,
    Listen,
    LogLevelOption,
    Name,
    Templates,
    Timeout,
    Values,
)
from ssa_operator.operator.process.option_values import address, check_folders, crd_folders, installation_of
from ssa_operator.operator.process.streams import CommandError, LogFormat, LogLevel

EXAMPLES = [Path("examples")]


EXAMPLE = "ssa-operator dev --templates templates --examples examples"


def dev(
    ctx: typer.Context,
    templates: Templates = TEMPLATES,
    values: Values = None,
    crds: Crds = CRDS,
    examples: Annotated[
        list[Path], typer.Option(help="File or folder of example objects to apply (repeatable).")
    ] = EXAMPLES,
    name: Name = "default",
    until_ready: Annotated[
        bool,
        typer.Option(
            "--until-ready",
            help="Exit with 0 as soon as every example is Ready, or with 1 after --timeout, or when no waiting helps.",
        ),
    ] = False,
    timeout: Timeout = 120.0,
    listen: Listen = LISTEN,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Run the operator on a local cluster. It applies the CRDs and examples, and reloads changed templates.

    A terminal shows one screen: the tree of all objects, the last Events, and errors with their place in the template.
    Keys pause a parent, apply it again, open a diff or blame, and quit. Without a terminal the command prints its log.
    """
    import asyncio

    from ssa_operator.operator.process import logging_setup

    check_folders(templates)
    crds = crd_folders(crds, templates) or crds  # the default folder may come later
    try:
        from ssa_operator.tools.dev.dev_session import DevSession
    except ModuleNotFoundError as error:
        raise CommandError(f"{error.name} is missing; install it with pip install 'ssa-operator[dev]'") from error
    from ssa_operator.web.routes import WebView

    logging_setup.configure(LogFormat.TEXT, log_level)
    dev_session = DevSession(
        templates=tuple(templates),
        installation=installation_of(values),
        crds=tuple(crds),
        examples=tuple(examples),
        name=name,
        listen=address(listen),
        fixed_port=str(ctx.get_parameter_source("listen")) != "ParameterSource.DEFAULT",
        until_ready=timeout if until_ready else None,
        pages=WebView,
    )
    asyncio.run(dev_session.run())
