"""Options that several commands share.

Promises:
- An option means the same in every command.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.cli.completed_names import contexts, namespaces
from ssa_operator.operator.process.option_values import timeout_of
from ssa_operator.operator.process.streams import ListFormat, LogFormat, LogLevel, OutputFormat

Kubeconfig = Annotated[
    str | None,
    typer.Option(
        help="Use this kubeconfig file. Default: KUBECONFIG, then ~/.kube/config, then the pod's service account."
    ),
]
Impersonate = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Apply, delete and look up with the permissions of the service account NAME in each parent's namespace. "
        "Default: with the operator's own.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(help="Use this context of the kubeconfig. Default: the current context.", autocompletion=contexts),
]
Templates = Annotated[list[Path], typer.Option(help="Folder with one template folder for each resource (repeatable).")]
TEMPLATES = [Path("templates")]
Values = Annotated[
    list[Path] | None,
    typer.Option(
        "--values",
        metavar="FILE",
        help="File with values by template folder, over each folder's _values.yaml (repeatable; the last one wins).",
    ),
]
Revision = Annotated[
    int | None,
    typer.Option(
        "--revision", min=1, metavar="N", help="Show this revision of `rollout history`, not the templates on disk."
    ),
]
Crds = Annotated[list[Path], typer.Option(help="Folder of CRDs (repeatable).")]
CRDS = [Path("crds")]
CrdsOfTemplates = Annotated[
    list[Path] | None,
    typer.Option(
        "--crds", help="Folder of CRDs (repeatable). Default: the folder crds beside each --templates folder."
    ),
]
Examples = Annotated[
    list[Path] | None,
    typer.Option(
        "--examples",
        help="File or folder of example parents (repeatable). Default: the folder examples beside each --templates "
        "folder.",
    ),
]


class APIServerUse(StrEnum):
    """Whether an API server is asked for what it refuses."""

    AUTO = "auto"
    NEVER = "never"


APIServerOption = Annotated[
    APIServerUse,
    typer.Option(
        "--api-server",
        help="auto: ask a local API server what it refuses, one that runs or one for this run. never: ask none.",
    ),
]
WatchedNamespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Watch only this namespace (repeatable). Default: all namespaces.",
        autocompletion=namespaces,
    ),
]
ShownNamespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Show only parents in this namespace (repeatable). Default: all namespaces.",
        autocompletion=namespaces,
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace of objects that name none. Default: the namespace of the kubeconfig's context.",
        autocompletion=namespaces,
    ),
]
AllNamespaces = Annotated[
    bool,
    typer.Option("--all-namespaces", "-A", help="Show the parents of all namespaces, even if --namespace names some."),
]
ShownSelector = Annotated[
    str, typer.Option("--selector", "-l", help="Show only parents whose labels match this label selector.")
]
Filename = Annotated[
    list[str] | None,
    typer.Option(
        "--filename",
        "-f",
        metavar="FILE",
        help="Another way to name a file or folder (repeatable). - is standard input.",
    ),
]
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Show each change until interrupted.")]
Name = Annotated[str, typer.Option(help="Name of the local cluster.")]
Timeout = Annotated[
    float,
    typer.Option(
        parser=timeout_of,
        metavar="DURATION",
        help="Maximum time to wait, such as 90s or 5m; a number is seconds.",
    ),
]
Listen = Annotated[
    str, typer.Option(help="Address of the HTTP server with /healthz, /readyz, /metrics and /objects. '' disables it.")
]
LISTEN = "127.0.0.1:8080"
AdmissionService = Annotated[
    str,
    typer.Option(
        metavar="NAME[:PORT]",
        help="Service in the operator's namespace that leads to the webhook of --admission. Default of PORT: 443.",
    ),
]
ConversionService = Annotated[
    str,
    typer.Option(
        metavar="NAME[:PORT]",
        help="Service in the operator's namespace that leads to the webhook of --conversion. Default of PORT: 443.",
    ),
]
LogFormatOption = Annotated[LogFormat, typer.Option(help="Format of log lines.")]
LogLevelOption = Annotated[LogLevel, typer.Option(help="Lowest level of log lines to show.")]
OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="Output format.")]

ListOption = Annotated[
    ListFormat,
    typer.Option("--output", "-o", help="Output format. wide adds API groups, and the messages of ready parents."),
]


def example(text: str) -> str:
    """The last line of a command's help: a command that the user can copy."""
    return f"Example: {text}"
