"""`check` gives the API server's verdict on objects of built-in kinds, and on mutations of each of their fields."""

from __future__ import annotations

import sys

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.rendering.folder.object_files import objects
from tests.manifest_comparison import Trial, compare, mutated
from tests.schema.built_in_objects import OBJECTS

pytestmark = pytest.mark.cluster

BODIES = [each.body for each in objects(OBJECTS, "all.yaml")]


async def test_valid_objects_of_built_in_kinds_have_no_errors(client: Client) -> None:
    result = await compare(client, [Trial("valid", str(body), body) for body in BODIES])
    assert result.total("refused") == 0
    assert not result.alarms, "\n".join(result.alarms)


@pytest.mark.exhaustive
async def test_mutations_are_refused_as_by_the_api_server(client: Client) -> None:
    result = await compare(client, mutated(BODIES))
    sys.stdout.write(f"{result}\n")
    assert not result.alarms, "\n".join(result.alarms)
    assert result.total("missed") <= result.total("refused") * 0.02, "\n".join(result.missed)
