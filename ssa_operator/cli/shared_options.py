"""Options that several commands share, and their environment variables.

Promises:
- An option means the same in every command.
- The user can set every option as the environment variable `SSA_OPERATOR_<NAME>`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.operator.process.command_error import CommandError
from ssa_operator.operator.process.log_format import LogFormat, LogLevel

if TYPE_CHECKING:
    from ssa_operator.rendering.folder.installation import Installation

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


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
Watch = Annotated[
    bool,
    typer.Option("--watch", "-w", envvar="SSA_OPERATOR_WATCH", help="Show each change until interrupted."),
]
Name = Annotated[str, typer.Option(envvar="SSA_OPERATOR_NAME", help="Name of the local cluster.")]
Timeout = Annotated[float, typer.Option(envvar="SSA_OPERATOR_TIMEOUT", min=0, help="Maximum seconds to wait.")]
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


def namespaces_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """The names that `--namespace` gives. One value may have several names, separated by commas.

    Raises CommandError for an invalid name.
    """
    names = tuple(name for item in given or () for name in item.split(",") if name)
    for name in names:
        if not _NAMESPACE.fullmatch(name):
            raise CommandError(f"--namespace is {name!r}, which is not a valid name of a namespace", code=2)
    return names


def namespace_of(given: str) -> str:
    """The one name that `--namespace` gives, '' without one. Raises CommandError for an invalid name."""
    names = namespaces_of([given])
    if len(names) > 1:
        raise CommandError(f"--namespace is {given!r}; name one namespace", code=2)
    return names[0] if names else ""


def account_name(given: str) -> str:
    """The name that `--impersonate` gives, '' without one. Raises CommandError for an invalid name."""
    from ssa_operator.schema.metadata_validation import subdomain_faults

    if given and subdomain_faults(given):
        raise CommandError(
            f"--impersonate is {given!r}; write the name of a service account alone, such as deployer", code=2
        )
    return given


def installation_of(values: Sequence[Path] | None, namespace: str | None = None) -> Installation:
    """What templates see of the installation. The operator's namespace is POD_NAMESPACE if `namespace` gives none; if
    both are empty, that of the cluster's credentials, and without a cluster `default`.

    Raises CommandError if a file does not exist.
    """
    import os

    from ssa_operator.rendering.folder.installation import Installation

    for path in values or ():
        if not path.exists():
            raise CommandError(f"there is no file {path}; name a file of values with --values", code=2)
    own = os.environ.get("POD_NAMESPACE", "") if namespace is None else namespace
    return Installation(values=tuple(values or ()), namespace=own)


_LABEL = r"(?:[A-Za-z0-9.-]+/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"[-A-Za-z0-9_.]+"
_SET = rf"\(\s*(?:{_VALUE}\s*)?(?:,\s*(?:{_VALUE}\s*)?)*\)"
_TERM = rf"\s*(?:(?:!\s*)?{_LABEL}|{_LABEL}\s*(?:=|==|!=)(?:\s*{_VALUE})?|{_LABEL}\s+(?:in|notin)\s*{_SET})\s*"
_SELECTOR = re.compile(rf"(?:{_TERM}(?:,{_TERM})*)?")


def check_selector(selector: str) -> None:
    """Raises CommandError if the text is no label selector."""
    if not _SELECTOR.fullmatch(selector):
        raise CommandError(
            f"--selector is {selector!r}; write label selectors such as app=web, tier!=test, env in (a, b), !old",
            code=2,
        )


def example(text: str) -> str:
    """The last line of a command's help: a command that the user can copy."""
    return f"Example: {text}"
