"""`ssa-operator cluster`: starts and stops the local control plane.

Promises:
- A cluster that `start` has started runs until `stop`. If the user interrupts the start, no process is left.
- A terminal shows progress as a bar. Without a terminal the command prints plain lines.
- Progress goes to standard error, data to standard output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.application import Application
from ssa_operator.cli.shared_options import Name, OutputOption, example
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError, OutputFormat

if TYPE_CHECKING:
    from ssa_operator.devcluster.cluster import ClusterStatus

app = Application(
    help="Start and stop a local control plane. It is real Kubernetes without containers.",
    epilog=example('eval "$(ssa-operator cluster start)"'),
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.command(epilog=example("ssa-operator cluster start"))
def start(
    name: Name = "default",
    audit: Annotated[bool, typer.Option("--audit", help="Let the API server write an audit log.")] = False,
) -> None:
    """Start a cluster, unless it runs already. It runs until `cluster stop`."""
    import asyncio

    _require_extra()
    from ssa_operator.devcluster import cluster
    from ssa_operator.tools.dev.dev_cluster import command_errors, show_progress

    with command_errors(), show_progress() as report:
        started = asyncio.run(cluster.start(cluster.ClusterSpec(name=name, audit=audit, detached=True), report))
    streams.error(f"Cluster {name} is ready at {started.url}")
    streams.line(f"export KUBECONFIG={started.kubeconfig}")


@app.command(epilog=example("ssa-operator cluster stop"))
def stop(name: Name = "default") -> None:
    """Stop a cluster and remove its data."""
    import asyncio

    _require_extra()
    from ssa_operator.devcluster import cluster
    from ssa_operator.tools.dev.dev_cluster import command_errors, show_progress

    with command_errors(), show_progress() as report:
        stopped = asyncio.run(cluster.stop(name, report))
    streams.error(f"Cluster {name} {'is stopped and removed' if stopped else 'does not exist'}")


@app.command(epilog=example("ssa-operator cluster status --output json"))
def status(name: Name = "default", output: OutputOption = OutputFormat.TABLE) -> None:
    """Show whether a cluster runs, and where its files are. Exits with 1 if it does not run."""
    import asyncio

    _require_extra()
    from ssa_operator.devcluster import cluster
    from ssa_operator.tools import printing
    from ssa_operator.tools.dev.dev_cluster import command_errors

    with command_errors():
        found = asyncio.run(cluster.status(name))
    described = _describe(found)
    if output is OutputFormat.TABLE:
        for key, value in described.items():
            shown = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
            streams.line(f"{key + ':':<12} {'-' if shown is None else shown}")
    else:
        printing.data(described, output)
    if found.state != "running":
        raise typer.Exit(1)


@app.command(epilog=example('export KUBECONFIG="$(ssa-operator cluster kubeconfig)"'))
def kubeconfig(name: Name = "default") -> None:
    """Print the path of a running cluster's kubeconfig."""
    import asyncio

    _require_extra()
    from ssa_operator.devcluster import cluster
    from ssa_operator.tools.dev.dev_cluster import command_errors

    with command_errors():
        found = asyncio.run(cluster.status(name))
    if found.cluster is None or found.state != "running":
        raise CommandError(
            f"cluster {name} is {found.state}: {found.message}; start it: ssa-operator cluster start --name {name}"
        )
    streams.line(str(found.cluster.kubeconfig))


def _describe(found: ClusterStatus) -> dict[str, Any]:
    cluster = found.cluster
    return {
        "name": found.name,
        "state": found.state,
        "message": found.message,
        "directory": str(found.directory),
        "url": cluster.url if cluster else None,
        "kubeconfig": str(cluster.kubeconfig) if cluster else None,
        "auditLog": str(cluster.audit_log) if cluster and cluster.audit_log else None,
        "pids": dict(cluster.pids) if cluster else {},
    }


def _require_extra() -> None:
    try:
        import cryptography  # noqa: F401
        import platformdirs  # noqa: F401
    except ModuleNotFoundError as error:
        raise CommandError(f"{error.name} is missing; install it with pip install 'ssa-operator[dev]'") from error
