"""The cluster that a command uses.

Promises:
- It is the one that kubectl would use: of --kubeconfig, KUBECONFIG, ~/.kube/config, and in a pod its service account.
- If none of these exists and the local cluster of SSA_OPERATOR_NAME (without it: `default`) runs, the command uses that
  one, and says so on standard error.
- A command takes no local cluster of another name, which may be another project's: the error names each that runs, and
  the command that makes the shell use it.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection
from pathlib import Path

from ssa_operator.kube.auth import credentials
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError

NAME = "SSA_OPERATOR_NAME"
"""The environment variable with the name of the local cluster, as `--name` gives it to `dev` and `cluster`."""


def cluster_target(kubeconfig: str | None, context: str | None) -> Target:
    """The cluster of the options --kubeconfig and --context, None if the user didn't give them. Raises CommandError if
    the user named no cluster, and only local clusters of other names run.
    """
    if kubeconfig is None and context is None and not credentials.is_configured():
        local = {path.parent.name: path for path in running_clusters()}
        name = os.environ.get(NAME) or "default"
        if name in local:
            command = f"export KUBECONFIG={shlex.quote(str(local[name]))}"
            streams.error(f"There is no kubeconfig, so this is the local cluster {name}; as {command}")
            return Target(kubeconfig=str(local[name]))
        if local:
            raise CommandError(_others(name, local))
    return Target(kubeconfig=kubeconfig, context=context)


def _others(name: str, running: Collection[str]) -> str:
    """The message about local clusters of other names than `name`."""
    commands = (f'`export KUBECONFIG="$(ssa-operator cluster kubeconfig --name {each})"`' for each in running)
    uses = " and ".join(f"{command} uses {each}" for each, command in zip(running, commands, strict=True))
    start = "ssa-operator cluster start" + (f" --name {name}" if name != "default" else "")
    return f"there is no kubeconfig, and no local cluster {name} runs; {uses}, `{start}` starts {name}"


def running_clusters() -> list[Path]:
    """The kubeconfigs of the local clusters that run."""
    try:
        from ssa_operator.devcluster import cluster_files, processes
        from ssa_operator.devcluster.cluster import state_directory
        from ssa_operator.devcluster.components import Layout
    except ModuleNotFoundError:  # without the extra `dev` there are no local clusters
        return []
    root = state_directory()
    directories = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    running = (path for path in directories if processes.is_alive(path) and cluster_files.read_record(path) is not None)
    return [Layout(directory=path).kubeconfig for path in running]
