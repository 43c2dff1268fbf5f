"""Compares what is made of new objects offline with what the API server makes of them, for the CRDs in folders.

    python -m tests.object_comparison FOLDER... [--objects 200] [--seed 1]

starts a control plane of its own, installs the CRDs, sends random objects of each as dry runs, and prints every
difference and the numbers. `python -m tests.object_comparison FOLDER` runs it.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import random
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ssa_operator.devcluster.cluster import ClusterSpec, start
from ssa_operator.kube.api import request
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth import credentials
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.operator import crd_installation
from ssa_operator.schema.new_object import NewObject, new_object
from tests.objects.random_objects import random_object


@dataclass(slots=True)
class Comparison:
    """The counts of one version of a CRD."""

    accepted: int = 0
    refused: int = 0
    pruned: int = 0
    unchecked: Counter[str] = field(default_factory=Counter)
    differences: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        unchecked = f", {sum(self.unchecked.values())} unchecked rules" if self.unchecked else ""
        counts = f"{self.accepted} accepted, {self.refused} refused, {self.pruned} pruned{unchecked}"
        return f"{counts}, {len(self.differences)} differences"


async def served_resource(client: Client, definition: Mapping[str, Any]) -> Resource:
    """The resource of a CRD, which the API server serves. It takes as long as dozens of dry runs."""
    spec = definition["spec"]
    return await RESTMapper(client).resource(GroupKind(spec["group"], spec["names"]["kind"]))


async def compare(
    client: Client,
    namespace: str,
    definition: Mapping[str, Any],
    version: str,
    bodies: Sequence[dict[str, Any]],
    *,
    resource: Resource | None = None,
) -> Comparison:
    """Sends the objects as dry runs, and compares errors and results. `resource` is that of the CRD, if it is known."""
    result = Comparison()
    resource = replace(resource or await served_resource(client, definition), version=version)
    for body in bodies:
        create = request.create(resource, namespace if resource.namespaced else "", encode(body))
        query = (("dryRun", "All"), ("fieldManager", "test"), ("fieldValidation", "Ignore"))
        found = new_object(body, definition, version)
        try:
            response = await client.send(dataclasses.replace(create, query=query, dry_run=True))
            answer = json.loads(response.body)
        except ApiError as error:
            result.refused += 1
            difference = _refusals_differ(error, found)
        else:
            result.accepted += 1
            difference = _objects_differ(answer, found)
        result.pruned += bool(found.pruned)
        result.unchecked.update(found.unchecked)
        if difference:
            result.differences.append(
                f"{definition['spec']['names']['kind']} {version}: {difference}\n  {json.dumps(body)}"
            )
    return result


# Go's reason why a text is no address has many words of its own.
_ADDRESS_DETAIL = re.compile(r"(?<=conversion from string): ParseAddr\(.*(?= evaluating rule)")


def _refusals_differ(error: ApiError, found: NewObject) -> str:
    if error.code != 422:
        return "" if found.errors else f"the API server refuses it, and offline it is valid: {error.message}"
    theirs = sorted({_ADDRESS_DETAIL.sub("", f"{cause.field}: {cause.message}") for cause in error.causes})
    ours = sorted({str(each) for each in found.errors})
    if theirs == ours or (found.unchecked and ours and set(ours) <= set(theirs)):
        return ""
    if not ours and found.unchecked:
        return ""
    only_theirs, only_ours = sorted(set(theirs) - set(ours)), sorted(set(ours) - set(theirs))
    return f"other errors; API server: {only_theirs}; offline: {only_ours}"


def _objects_differ(answer: Mapping[str, Any], found: NewObject) -> str:
    if found.errors:
        return f"the API server accepts it, and offline it is refused: {[str(each) for each in found.errors]}"
    theirs = {key: item for key, item in answer.items() if key not in ("metadata", "status")}
    ours = {key: item for key, item in found.body.items() if key not in ("metadata", "status")}
    same = json.dumps(theirs, sort_keys=True) == json.dumps(ours, sort_keys=True)
    return "" if same else f"other objects; API server: {json.dumps(theirs)}; offline: {json.dumps(ours)}"


def versions(definition: Mapping[str, Any]) -> Iterator[str]:
    """The served versions of a CRD."""
    yield from (each["name"] for each in definition["spec"]["versions"] if each.get("served"))


async def _main(arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as state:
        os.environ["SSA_OPERATOR_STATE_DIR"] = state
        cluster = await start(ClusterSpec(name="comparison"))
        try:
            async with Client(await credentials.load(str(cluster.kubeconfig), None)) as client:
                return await _compare_all(client, arguments)
        finally:
            await cluster.stop()


async def _compare_all(client: Client, arguments: argparse.Namespace) -> int:
    documents = crd_installation.load_crds(*map(Path, arguments.folders))
    await crd_installation.install(client, documents)
    failed = 0
    for document in documents:
        for version in versions(document.body):
            chance = random.Random(arguments.seed)
            bodies = [random_object(document.body, version, chance) for _ in range(arguments.objects)]
            started = time.monotonic()
            found = await compare(client, "default", document.body, version, bodies)
            seconds = time.monotonic() - started
            _write(f"{document.body['metadata']['name']} {version}: {found} ({seconds:.1f} s)")
            for difference in found.differences[: arguments.show]:
                _write(f"  {difference}"[: arguments.width])
            for rule, count in found.unchecked.most_common(arguments.show):
                _write(f"  unchecked {count} times: {rule}")
            failed += len(found.differences)
    return 1 if failed else 0


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare new objects offline with the API server's.")
    parser.add_argument("folders", nargs="+", help="folders or files with CRDs")
    parser.add_argument("--objects", type=int, default=200, help="random objects of each version")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=3, help="differences of each version that are printed")
    parser.add_argument("--width", type=int, default=1500, help="characters of a difference")
    sys.exit(asyncio.run(_main(parser.parse_args())))
