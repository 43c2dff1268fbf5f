"""Options that several commands share, and their environment variables.

Promises:
- An option means the same in every command.
- The user can set every option as the environment variable `SSA_OPERATOR_<NAME>`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.operator.process.option_values import timeout_of
from ssa_operator.operator.process.streams import ListFormat, LogFormat, LogLevel, OutputFormat

Kubeconfig = Annotated[
    str | None,
    typer.Option(
        envvar="SSA_OPERATOR_KUBECONFIG",
        help="Use this kubeconfig file. Default: KUBECONFIG, then ~/.kube/config, then the pod's service account.",
    ),
]
Impersonate = Annotated[
    str,
    typer.Option(
        envvar="SSA_OPERATOR_IMPERSONATE",
        metavar="NAME",
        help="Apply, delete and look up with the permissions of the service account NAME in each parent's namespace. "
        "Default: with the operator's own.",
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        envvar="SSA_OPERATOR_CONTEXT", help="Use this context of the kubeconfig. Default: the current context."
    ),
]
Templates = Annotated[
    list[Path],
    typer.Option(
        envvar="SSA_OPERATOR_TEMPLATES", help="Folder with one template folder for each resource (repeatable)."
    ),
]
TEMPLATES = [Path("templates")]
Values = Annotated[
    list[Path] | None,
    typer.Option(
        "--values",
        envvar="SSA_OPERATOR_VALUES",
        metavar="FILE",
        help="File with values by template folder, over each folder's _values.yaml (repeatable; the last one wins).",
    ),
]
Crds = Annotated[list[Path], typer.Option(envvar="SSA_OPERATOR_CRDS", help="Folder of CRDs (repeatable).")]
CRDS = [Path("crds")]
CrdsOfTemplates = Annotated[
    list[Path] | None,
    typer.Option(
        "--crds",
        envvar="SSA_OPERATOR_CRDS",
        help="Folder of CRDs (repeatable). Default: the folder crds beside each --templates folder.",
    ),
]
Examples = Annotated[
    list[Path] | None,
    typer.Option(
        "--examples",
        envvar="SSA_OPERATOR_EXAMPLES",
        help="File or folder of example parents (repeatable). Default: the folder examples beside each --templates "
        "folder.",
    ),
]
WatchedNamespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        "-n",
        envvar="SSA_OPERATOR_NAMESPACE",
        help="Watch only this namespace (repeatable). Default: all namespaces.",
    ),
]
ShownNamespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        "-n",
        envvar="SSA_OPERATOR_NAMESPACE",
        help="Show only parents in this namespace (repeatable). Default: all namespaces.",
    ),
]
Namespace = Annotated[
    str,
    typer.Option(
        "--namespace",
        "-n",
        envvar="SSA_OPERATOR_NAMESPACE",
        help="Namespace of objects that name none. Default: the namespace of the kubeconfig's context.",
    ),
]
AllNamespaces = Annotated[
    bool,
    typer.Option(
        "--all-namespaces",
        "-A",
        envvar="SSA_OPERATOR_ALL_NAMESPACES",
        help="Show the parents of all namespaces, even if --namespace names some.",
    ),
]
ShownSelector = Annotated[
    str,
    typer.Option(
        "--selector",
        "-l",
        envvar="SSA_OPERATOR_SELECTOR",
        help="Show only parents whose labels match this label selector.",
    ),
]
Filename = Annotated[
    list[str] | None,
    typer.Option(
        "--filename",
        "-f",
        envvar="SSA_OPERATOR_FILENAME",
        metavar="FILE",
        help="Another way to name a file or folder (repeatable). - is standard input.",
    ),
]
Watch = Annotated[
    bool,
    typer.Option("--watch", "-w", envvar="SSA_OPERATOR_WATCH", help="Show each change until interrupted."),
]
Name = Annotated[str, typer.Option(envvar="SSA_OPERATOR_NAME", help="Name of the local cluster.")]
Timeout = Annotated[
    float,
    typer.Option(
        envvar="SSA_OPERATOR_TIMEOUT",
        parser=timeout_of,
        metavar="DURATION",
        help="Maximum time to wait, such as 90s or 5m; a number is seconds.",
    ),
]
Listen = Annotated[
    str,
    typer.Option(
        envvar="SSA_OPERATOR_LISTEN",
        help="Address of the HTTP server with /healthz, /readyz, /metrics and /objects. '' disables it.",
    ),
]
LISTEN = "127.0.0.1:8080"
AdmissionService = Annotated[
    str,
    typer.Option(
        envvar="SSA_OPERATOR_ADMISSION_SERVICE",
        metavar="NAME[:PORT]",
        help="Service in the operator's namespace that leads to the webhook of --admission. Default of PORT: 443.",
    ),
]
LogFormatOption = Annotated[LogFormat, typer.Option(envvar="SSA_OPERATOR_LOG_FORMAT", help="Format of log lines.")]
LogLevelOption = Annotated[
    LogLevel, typer.Option(envvar="SSA_OPERATOR_LOG_LEVEL", help="Lowest level of log lines to show.")
]
OutputOption = Annotated[
    OutputFormat, typer.Option("--output", "-o", envvar="SSA_OPERATOR_OUTPUT", help="Output format.")
]

ListOption = Annotated[
    ListFormat,
    typer.Option(
        "--output",
        "-o",
        envvar="SSA_OPERATOR_OUTPUT",
        help="Output format. wide adds API groups, and the messages of ready parents.",
    ),
]


def example(text: str) -> str:
    """The last line of a command's help: a command that the user can copy."""
    return f"Example: {text}"
