"""Whoever types what an example's README says sees what it says, with all examples in one operator."""

from __future__ import annotations

import asyncio

import pytest

from docs.generate.transcripts import commands, lasting, resource, type_in
from ssa_operator.devcluster.cluster import Cluster
from tests.examples.example_catalog import GALLERY, NAMES, RESOURCES, ROOT
from tests.operator.harness import PATIENCE

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("desk", "operator")]


async def typed(text: str, cluster: Cluster) -> str:
    """What a command prints."""
    async with asyncio.timeout(2 * PATIENCE):
        return await type_in(text, ROOT, cluster.kubeconfig)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_a_page_prints_what_it_says(name: str, cluster: Cluster) -> None:
    page = GALLERY / name / "README.md"
    await typed(f"kubectl apply -f {resource(page)}", cluster)
    try:
        for command in commands(page):
            printed = await typed(command.text, cluster)
            # A wait for a deletion names what is still there when it begins.
            assert "--for=delete" in command.text or lasting(printed) == lasting(command.output), command.text
    finally:
        await typed(f"kubectl delete --ignore-not-found --timeout=2m -f {GALLERY / name / 'examples'}", cluster)


@pytest.mark.exhaustive
@pytest.mark.slow
async def test_all_examples_become_ready_in_one_operator(cluster: Cluster) -> None:
    """Those of the project's own templates, too."""
    files = [resource(GALLERY / name / "README.md") for name in NAMES]
    files += ["examples/namespaces/examples/registry.yaml", "examples/echo.yaml", "examples/neondatabase.yaml"]
    chosen = " ".join(f"-f {file}" for file in files)
    await typed(f"kubectl apply {chosen}", cluster)
    try:
        kinds = ",".join(
            [*(name for name in RESOURCES if "." in name), "echoes.example.com", "neondatabases.melenion.com"]
        )
        await typed(f"kubectl wait --for=condition=Ready --timeout=2m --all {kinds}", cluster)
        await typed("kubectl wait --for=create --timeout=2m secret/pull-secret -n team-a", cluster)
    finally:
        await typed(f"kubectl delete --ignore-not-found --timeout=2m {chosen}", cluster)
