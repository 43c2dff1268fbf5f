"""Options that several commands share, and the names of their environment variables.

Promises:
- An option means the same in every command that has it, and each can be set as `SSA_OPERATOR_<NAME>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.cli.command_error import CommandError

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


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
Format = Annotated[Output, typer.Option("--output", "-o", envvar="SSA_OPERATOR_OUTPUT", help="How to print.")]
Namespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        "-n",
        envvar="SSA_OPERATOR_NAMESPACE",
        help="Look only into this namespace; repeatable. Default: all namespaces.",
    ),
]
Name = Annotated[str, typer.Option(envvar="SSA_OPERATOR_NAME", help="The local cluster's name.")]
Timeout = Annotated[float, typer.Option(envvar="SSA_OPERATOR_TIMEOUT", min=0, help="Seconds to wait at most.")]
Listen = Annotated[
    str,
    typer.Option(envvar="SSA_OPERATOR_LISTEN", help="Address of /healthz, /readyz, /metrics, /objects; '' for none."),
]
LISTEN = "127.0.0.1:8080"
LogFormatOption = Annotated[LogFormat, typer.Option(envvar="SSA_OPERATOR_LOG_FORMAT", help="How log lines look.")]
LogLevelOption = Annotated[LogLevel, typer.Option(envvar="SSA_OPERATOR_LOG_LEVEL", help="Which log lines are shown.")]


def namespaces_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """The names that `--namespace` gives, which may also stand in one text with commas between them.

    Raises CommandError for what can't be the name of a namespace.
    """
    names = tuple(name for item in given or () for name in item.split(",") if name)
    for name in names:
        if not _NAMESPACE.fullmatch(name):
            raise CommandError(f"--namespace is {name!r}, which can't be the name of a namespace", code=2)
    return names


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
