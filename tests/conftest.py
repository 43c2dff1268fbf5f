"""A real control plane for the tests that need one: started once a session, ended with it, kill -9 included."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import inspect
import json
import logging
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from ssa_operator.devcluster import components
from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start
from ssa_operator.kube.api.client import Client
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from tests.devcluster.audit import end_of_log, written_collections
from tests.devcluster.waiting import until
from tests.exhaustive import pytest_collection_modifyitems  # noqa: F401 - a hook of pytest
from tests.installed_crds import install_crds
from tests.operator.harness import administrator
from tests.secret_contents import OUTPUTS, SecretSearch

pytest_plugins = ("tests.operator.fixtures",)

# How long an example takes says how busy the machine is, not whether a property holds.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A shell starts what it runs in the background with SIGINT ignored, and processes inherit that: no test could interrupt
# a command then.
signal.signal(signal.SIGINT, signal.default_int_handler)


# Programs in Go collect garbage less often. Their memory grows, and an API server takes a sixth less CPU.
os.environ.setdefault("GOGC", "400")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Each worker of pytest-xdist first imports its share of the test files.

    pytest compiles each test file anew in a new checkout, with its assertions rewritten, which takes 20 seconds. All
    workers together do that once: each finds what the others have compiled.
    """
    own = getattr(session.config, "workerinput", None)
    if own is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    number, workers = int(own["workerid"].removeprefix("gw")), own["workercount"]
    root = Path(__file__).parent
    files = [path for path in sorted(root.rglob("test_*.py")) if not pytest_ignore_collect(path, session.config)]
    for path in files[number::workers]:
        # The collection reports a file that can't be imported.
        with contextlib.suppress(Exception):
            importlib.import_module(".".join(path.relative_to(root.parent).with_suffix("").parts))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make test-slow` imports only the files with slow tests: all files take each worker half a minute of CPU."""
    if not config.option.markexpr.startswith("slow") or config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return None
    return (collection_path.match("test_*.py") and "mark.slow" not in collection_path.read_text()) or None


Kubectl = Callable[..., str]
"""`kubectl(*arguments, input=None) -> str`: standard output; CalledProcessError has standard error as its note."""


STABLE_ONLY = bool(os.environ.get("STABLE_FEATURES_ONLY"))
"""Whether the session's API server has no alpha and beta features (`python -m tests.skew stable`)."""

CLOSING = 5.0
"""Seconds within which connections that were closed have to be gone."""


@pytest.fixture(autouse=True)
def closed_connections(request: pytest.FixtureRequest) -> None:
    """After all other fixtures of an asynchronous test, waits for the end of its connections.

    A connection whose TLS handshake was cancelled says goodbye to the API server before it closes. If the loop ends
    earlier, the garbage collector finds it in some later test, as an unclosed one.
    """
    if inspect.iscoroutinefunction(getattr(request.node, "obj", None)):
        request.getfixturevalue("_closed_connections")


@pytest.fixture
async def _closed_connections() -> AsyncIterator[None]:
    yield
    loop: Any = asyncio.get_running_loop()
    with contextlib.suppress(TimeoutError):
        # One is the loop's own pipe.
        await until(lambda: len(loop._selector.get_map()) <= 1, CLOSING)


async def _install_crds(cluster: Cluster) -> None:
    async with Client(await administrator(cluster)) as client:
        await install_crds(cluster, client)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The session's control plane, with an audit log and the project's CRDs. Its programs are in the user's folders."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        patch.setattr(components, "AUDIT_POLICY", Path(__file__).parent / "devcluster" / "audit-policy.yaml")
        spec = ClusterSpec(
            name="tests",
            audit=True,
            admission_plugins=("OwnerReferencesPermissionEnforcement",),
            stable_only=STABLE_ONLY,
        )
        # A loop of its own, that is not made the thread's: pytest-asyncio has its own ideas about that one.
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            running = runner.run(start(spec))
            try:
                runner.run(_install_crds(running))
                yield running
            finally:
                runner.run(running.stop())


@pytest.fixture(autouse=True)
def hidden_secrets(request: pytest.FixtureRequest) -> None:
    """Fails a test of the control plane whose operators or commands show the content of a Secret."""
    if "cluster" in request.fixturenames:
        request.getfixturevalue("secret_search")


@pytest.fixture
def secret_search(cluster: Cluster) -> Iterator[SecretSearch]:
    log = logging.getLogger("ssa_operator")
    log.addHandler(OUTPUTS)
    search = SecretSearch(cluster)
    yield search
    log.removeHandler(OUTPUTS)
    found = search.found()
    assert not found, "\n".join(found)


@pytest.fixture(scope="session")
def kubectl(cluster: Cluster) -> Kubectl:
    """kubectl as the cluster's administrator. It blocks: tests with something in their loop call it in a thread."""
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
def current_kubernetes(kubectl: Kubectl) -> None:
    """Skips the test against another version of Kubernetes than the one whose schemas and rules the package has."""
    served = json.loads(kubectl("get", "--raw=/version"))
    if f"{served['major']}.{served['minor']}" != KUBERNETES_VERSION:
        pytest.skip(f"compares the package with Kubernetes {KUBERNETES_VERSION}; this is {served['gitVersion']}")


@pytest.fixture
async def namespace(cluster: Cluster) -> AsyncIterator[str]:
    """The name of a new namespace in which pods can be created. What the test wrote there is deleted without a wait."""
    async with new_namespace(cluster) as name:
        yield name


@contextlib.asynccontextmanager
async def new_namespace(cluster: Cluster) -> AsyncIterator[str]:
    """The name of a new namespace until the block ends. What was written there is deleted then, without a wait."""
    name = f"test-{uuid.uuid4().hex[:10]}"
    begin = end_of_log(cluster)
    async with cluster.connect() as server:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert await server.create("/api/v1/namespaces", body)
        async with asyncio.timeout(10):
            # Made by a controller; a pod is refused before.
            while await server.get(f"/api/v1/namespaces/{name}/serviceaccounts/default") is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    yield name
    # To delete the namespace, Kubernetes asks for the objects of each kind: more requests than most tests send.
    async with cluster.connect() as server:
        for path in written_collections(cluster, begin, name):
            await server.delete(path)
