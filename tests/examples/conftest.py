"""One operator process that runs all examples, and those of the project's own templates beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.cli.process import Command, started
from tests.controller.conftest import client, desk, options, templates
from tests.examples.example_catalog import RESOURCES, arguments
from tests.examples.printed_roles import account

__all__ = ["account", "client", "desk", "operator", "options", "templates"]


@pytest.fixture
async def operator(cluster: Cluster) -> AsyncIterator[Command]:
    """The namespace keeps it from the parents of other tests; those of the examples are in it, or in none."""
    own = ["--templates=templates", "--crds=crds", "--namespace=default", "--listen=", "--install-crds"]
    async with started("run", *own, *arguments(), f"--kubeconfig={cluster.kubeconfig}") as operator:
        for resource in RESOURCES:
            await operator.says(f"{resource}: starts with")
        yield operator
