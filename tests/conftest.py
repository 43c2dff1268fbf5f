"""A real control plane for the tests that need one: started once a session, ended with it, kill -9 of the session included."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from ssa_operator.devcluster import api
from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start, stop_attached
from ssa_operator.devcluster.components import Layout

Kubectl = Callable[..., str]
"""`kubectl(*arguments, input=None) -> str`: the standard output; a failure raises CalledProcessError with the standard error as a note."""


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The session's control plane, with an audit log; nothing of it is in the user's folders but the programs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        spec = ClusterSpec(name="tests", audit=True, admission_plugins=("OwnerReferencesPermissionEnforcement",))
        # A loop of its own, that is not made the thread's: pytest-asyncio has its own ideas about that one.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            running = runner.run(start(spec))
            try:
                yield running
            finally:
                runner.run(stop_attached(running))


@pytest.fixture
def kubectl(cluster: Cluster) -> Kubectl:
    """kubectl of the test environment, as the cluster's administrator. It blocks: an async test that serves something calls it in a thread."""
    program = Path(sys.executable).parent / "kubectl"

    def run(*arguments: str, input: str | None = None) -> str:  # noqa: A002 - subprocess calls it so
        command = [str(program), f"--kubeconfig={cluster.kubeconfig}", *arguments]
        try:
            return subprocess.run(command, input=input, capture_output=True, text=True, check=True).stdout
        except subprocess.CalledProcessError as error:
            error.add_note(error.stderr)
            raise

    return run


@pytest.fixture
async def namespace(cluster: Cluster) -> AsyncIterator[str]:
    """The name of a new namespace whose service account `default` is there, so that pods can be created; its deletion is not waited for."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    async with api.connect(cluster.url, Layout(directory=cluster.directory)) as server:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert await server.create("/api/v1/namespaces", body)
        async with asyncio.timeout(10):
            while await server.get(f"/api/v1/namespaces/{name}/serviceaccounts/default") is None:
                await asyncio.sleep(0.01)
    yield name
    async with api.connect(cluster.url, Layout(directory=cluster.directory)) as server:
        await server.delete(f"/api/v1/namespaces/{name}")
