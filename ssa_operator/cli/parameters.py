"""Options that several commands share, and the names of their environment variables.

Promises:
- An option means the same in every command that has it, and each can be set as `SSA_OPERATOR_<NAME>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.cli.failure import CommandError


class Output(StrEnum):
    """How data is printed."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """Which log lines are shown."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


Kubeconfig = Annotated[
    str | None,
    typer.Option(
        envvar="SSA_OPERATOR_KUBECONFIG",
        help="The kubeconfig file. Default: KUBECONFIG, then ~/.kube/config, then the pod's service account.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(envvar="SSA_OPERATOR_CONTEXT", help="The context in the kubeconfig. Default: its current one."),
]
Templates = Annotated[
    list[Path],
    typer.Option(
        envvar="SSA_OPERATOR_TEMPLATES", help="The folder of template folders, one for each resource; repeatable."
    ),
]
TEMPLATES = [Path("templates")]
Crds = Annotated[list[Path], typer.Option(envvar="SSA_OPERATOR_CRDS", help="The folder of CRDs; repeatable.")]
CRDS = [Path("crds")]
CrdsOfTemplates = Annotated[
    list[Path] | None,
    typer.Option(
        "--crds",
        envvar="SSA_OPERATOR_CRDS",
        help="The folder of CRDs; repeatable. Default: crds beside each folder of templates.",
    ),
]
Format = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]
LogFormatOption = Annotated[LogFormat, typer.Option(envvar="SSA_OPERATOR_LOG_FORMAT", help="How log lines look.")]
LogLevelOption = Annotated[LogLevel, typer.Option(envvar="SSA_OPERATOR_LOG_LEVEL", help="Which log lines are shown.")]


def check_folders(templates: Sequence[Path]) -> None:
    """Raises CommandError where one is missing."""
    for folder in templates:
        if not folder.is_dir():
            raise CommandError(f"there is no folder {folder}; say where the templates are with --templates", code=2)


def crds_of(templates: Sequence[Path]) -> list[Path]:
    """Where the CRDs of some templates are if nothing else is said; such a folder may be missing."""
    return list(dict.fromkeys(folder.parent / "crds" for folder in templates))


def example(text: str) -> str:
    """The epilogue of a command's help: one line that can be typed as it stands."""
    return f"Example: {text}"
