"""`check` gives the API server's verdict on objects of built-in kinds, and on mutations of each of their fields."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.manifest import without_nulls
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation, field_text
from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.schema.value_types import has_types
from ssa_operator.tools.checks.manifest_rules import check_manifests
from ssa_operator.tools.checks.refusal_rules import check_refusals
from ssa_operator.tools.findings.codes import Severity
from ssa_operator.tools.schemas.schema_rules import check_schemas
from ssa_operator.tools.schemas.target_schemas import bundled_schemas
from tests.schema.built_in_objects import OBJECTS
from tests.schema.object_mutations import Mutation, mutations

pytestmark = pytest.mark.cluster

NOWHERE = SourceLocation("all.yaml", 1)

ACCEPTED = ("unknown-port",)
"""The codes of errors that the API server accepts."""

OF_THE_CLUSTER = (
    "not found",
    "no PriorityClass",
    "already exists",
    "is forbidden: unable to find",
    "allocated",
    "pod rejected: Pod Overhead",
)
"""Words of refusals that depend on what the cluster has, so that no manifest shows them."""


def errors(body: Mapping[str, Any], schemas: KubernetesSchemas) -> list[str]:
    """What `check` says of a manifest."""
    document = Document(body=body, location=NOWHERE, location_of=lambda _: NOWHERE)
    found = check_schemas([document], schemas)
    if has_types(body, schemas):
        found += [*check_refusals([document]), *check_manifests([document])]
    return [each.text for each in found if each.severity is Severity.ERROR and each.code not in ACCEPTED]


async def refusal(client: Client, mapper: RESTMapper, body: Mapping[str, Any]) -> str:
    """The API server's reason for the refusal of a strict apply; '' if it accepts the manifest."""
    resource = await mapper.resource(GroupKind(split_api_version(body["apiVersion"])[0], body["kind"]))
    namespace = "default" if resource.namespaced else ""
    try:
        sent = encode(without_nulls(body))
        await client.apply(resource, namespace, body["metadata"]["name"], sent, ApplyOptions(dry_run=True))
    except ApiError as error:
        return str(error)
    return ""


async def test_valid_objects_of_built_in_kinds_have_no_errors(client: Client) -> None:
    mapper, schemas = RESTMapper(client), bundled_schemas(KUBERNETES_VERSION)
    bodies = [each.body for each in objects(OBJECTS, "all.yaml")]
    verdicts = [(await refusal(client, mapper, body), errors(body, schemas)) for body in bodies]
    wrong = [each for each in zip(bodies, verdicts, strict=True) if any(each[1])]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.exhaustive
async def test_mutations_are_refused_as_by_the_api_server(client: Client) -> None:
    mapper, schemas = RESTMapper(client), bundled_schemas(KUBERNETES_VERSION)
    slots = asyncio.Semaphore(16)
    agreed: Counter[tuple[str, str]] = Counter()
    missed: list[str] = []
    alarms: list[str] = []

    async def compare(mutation: Mutation) -> None:
        ours = errors(mutation.body, schemas)
        async with slots:
            theirs = await refusal(client, mapper, mutation.body)
        if any(words in theirs for words in OF_THE_CLUSTER):
            return
        shown = (
            f"{mutation.body['kind']}: {mutation.category}: {field_text(mutation.path)} is {str(mutation.value)[:80]!r}"
        )
        agreed[mutation.category, "refused" if theirs else "accepted"] += 1
        if theirs and not ours:
            agreed[mutation.category, "missed"] += 1
            missed.append(f"{shown}: {theirs}")
        elif ours and not theirs:
            agreed[mutation.category, "false alarms"] += 1
            alarms.append(f"{shown}: {ours}")

    every = [mutation for each in objects(OBJECTS, "all.yaml") for mutation in mutations(each.body, schemas)]
    await asyncio.gather(*map(compare, every))
    if report := os.environ.get("MUTATIONS_REPORT"):
        Path(report).write_text(  # noqa: ASYNC240 - a file of a developer
            "\n".join(["missed", *sorted(missed), "", "false alarms", *sorted(alarms)]) + "\n"
        )
    print(table(agreed))  # noqa: T201 - the figures of docs/comparison.md
    refused = sum(count for (_, verdict), count in agreed.items() if verdict == "refused")
    assert not alarms, "\n".join(alarms)
    assert len(missed) <= refused * 0.05, "\n".join(missed)


def table(agreed: Mapping[tuple[str, str], int]) -> str:
    """The verdicts by the kind of mutation."""
    verdicts = ("refused", "missed", "accepted", "false alarms")
    categories = sorted({category for category, _ in agreed})
    rows = [[category, *(agreed.get((category, each), 0) for each in verdicts)] for category in categories]
    total = ["all", *(sum(row[column] for row in rows) for column in range(1, 5))]  # type: ignore[misc]
    lines = [f"{'':12}" + "".join(f"{each:>14}" for each in verdicts)]
    return "\n".join([*lines, *(f"{row[0]:12}" + "".join(f"{each:>14}" for each in row[1:]) for row in [*rows, total])])
