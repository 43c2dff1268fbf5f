"""The cluster that a command uses.

Promises:
- It is the one that kubectl would use: of --kubeconfig, KUBECONFIG, ~/.kube/config, and in a pod its service account.
- If none of these exists and one local cluster runs, the command uses that one, and says so on standard error.
- A command guesses no cluster of several: the error names none, and the user chooses by KUBECONFIG.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from ssa_operator.kube.auth import credentials
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.connection import Target


def cluster_target(kubeconfig: str | None, context: str | None) -> Target:
    """The cluster of the options --kubeconfig and --context, None if the user didn't give them."""
    if kubeconfig is None and context is None and not credentials.is_configured():
        local = running_clusters()
        if len(local) == 1:
            command = f"export KUBECONFIG={shlex.quote(str(local[0]))}"
            streams.error(f"There is no kubeconfig, so this is the local cluster {local[0].parent.name}; as {command}")
            return Target(kubeconfig=str(local[0]))
    return Target(kubeconfig=kubeconfig, context=context)


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
