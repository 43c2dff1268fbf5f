"""The option of commands that show data."""

from __future__ import annotations

from typing import Annotated

import typer

from ssa_operator.tools.terminal.output_format import OutputFormat

OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", envvar="SSA_OPERATOR_OUTPUT", help="Output format.")
]
