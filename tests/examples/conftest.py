"""One operator process that runs all examples, and those of the project's own templates beside them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.devcluster.waiting import until
from tests.examples.example_catalog import RESOURCES, ROOT, arguments
from tests.examples.printed_roles import account
from tests.operator.fixtures import client, desk, options, templates
from tests.operator.harness import PATIENCE
from tests.secret_contents import OUTPUTS

__all__ = ["account", "client", "desk", "operator", "options", "templates"]


@pytest.fixture(scope="module")
def operator_log(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The log of the operator, which runs until the end of the module. The namespace keeps it from the parents of other
    tests; those of the examples are in it, or in none.
    """
    own = ["--templates=templates", "--crds=crds", "--namespace=default", "--listen=", "--install-crds"]
    command = [sys.executable, "-m", "ssa_operator", "run", *own, *arguments(), f"--kubeconfig={cluster.kubeconfig}"]
    path = tmp_path_factory.mktemp("operator") / "log"
    with path.open("w") as log, subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log) as process:
        try:
            yield path
        finally:
            process.kill()


@pytest.fixture
async def operator(operator_log: Path) -> AsyncIterator[None]:
    """The operator runs all examples."""
    before = _text(operator_log)
    await until(lambda: _missing(operator_log) == [], PATIENCE)
    yield
    OUTPUTS.add("the operator of the examples", _text(operator_log).removeprefix(before))


def _text(log: Path) -> str:
    return log.read_text()


def _missing(log: Path) -> list[str]:
    """The resources that the operator does not watch yet."""
    text = _text(log)
    return [resource for resource in RESOURCES if f"{resource}: starts with" not in text]
