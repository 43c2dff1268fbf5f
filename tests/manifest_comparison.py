"""Compares what `check` says of manifests of built-in kinds with the verdicts of an API server.

    python -m tests.manifest_comparison FOLDER... [--mutate]

starts a control plane of its own, sends each object of the YAML files in the folders as a strict dry run of an apply,
and prints every difference and the numbers. With --mutate, it also changes each field of each object.
`python -m tests.manifest_comparison FOLDER` runs it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec import Struct

from ssa_operator.devcluster.cluster import ClusterSpec, start
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.auth import credentials
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.identity import GroupKind, is_built_in, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.manifest import SERVER_OWNED, without_nulls
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation, field_text
from ssa_operator.rendering.folder.object_files import FileError, objects
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas, has_types
from ssa_operator.tools.checks.api_server import ask
from ssa_operator.tools.checks.manifest_rules import check_manifests
from ssa_operator.tools.checks.refusal_rules import AskedManifest, check_refusals, server_findings
from ssa_operator.tools.findings import Severity
from ssa_operator.tools.schema_rules import bundled_schemas, check_schemas
from tests.schema.object_mutations import mutations

NOWHERE = SourceLocation("all.yaml", 1)

ACCEPTED = ("broken-reference",)
"""The codes of errors that the API server accepts."""

OF_THE_CLUSTER = (
    "not found",
    "no PriorityClass",
    "already exists",
    "is forbidden: unable to find",
    "allocated",
    "pod rejected: Pod Overhead",
    "field is immutable",
)
"""Words of refusals that depend on what the cluster has, so that no manifest shows them."""

VERDICTS = ("refused", "missed", "missed alone", "accepted", "false alarms")
"""`missed alone` are those that `check` finds only with an API server."""
_REQUESTS = 16


class Trial(Struct, frozen=True):
    """A manifest whose verdicts are compared."""

    category: str
    shown: str
    body: Mapping[str, Any]


@dataclass(slots=True)
class Comparison:
    """The verdicts on manifests."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    alarms: list[str] = field(default_factory=list)

    def add(self, trial: Trial, theirs: str, ours: list[str], asked: list[str]) -> None:
        """Count the verdicts on a manifest: `ours` without an API server, and what `check` adds when it has `asked`."""
        self.counts[trial.category, "refused" if theirs else "accepted"] += 1
        if theirs and not ours:
            self.counts[trial.category, "missed alone"] += 1
        if theirs and not (ours or asked):
            self.counts[trial.category, "missed"] += 1
            self.missed.append(f"{trial.shown}: {theirs}")
        elif (ours or asked) and not theirs:
            self.counts[trial.category, "false alarms"] += 1
            self.alarms.append(f"{trial.shown}: {ours or asked}")

    def total(self, verdict: str) -> int:
        """How many manifests have a verdict."""
        return sum(count for (_, each), count in self.counts.items() if each == verdict)

    def __str__(self) -> str:
        categories = sorted({category for category, _ in self.counts})
        rows = [(each, [self.counts[each, verdict] for verdict in VERDICTS]) for each in categories]
        rows.append(("all", [self.total(verdict) for verdict in VERDICTS]))
        head = f"{'':12}" + "".join(f"{each:>14}" for each in VERDICTS)
        return "\n".join([head, *(f"{name:12}" + "".join(f"{count:>14}" for count in row) for name, row in rows)])


def errors(body: Mapping[str, Any], schemas: KubernetesSchemas) -> list[str]:
    """What `check` says of a manifest."""
    document = Document(body=body, location=NOWHERE, location_of=lambda _: NOWHERE)
    found = check_schemas([document], schemas)
    if has_types(body, schemas):
        found += [*check_refusals([document], schemas), *check_manifests([document])]
    return [each.text for each in found if each.severity is Severity.ERROR and each.code not in ACCEPTED]


def sent(body: Mapping[str, Any]) -> dict[str, Any]:
    """What an operator sends of a manifest."""
    found: dict[str, Any] = without_nulls(body)
    found.pop("status", None)
    for name in (*SERVER_OWNED, "namespace"):
        found["metadata"].pop(name, None)
    return found


async def refusal(client: Client, mapper: RESTMapper, body: Mapping[str, Any]) -> str:
    """The API server's reason for the refusal of a strict apply; '' if it accepts the manifest."""
    resource = await mapper.resource(GroupKind(split_api_version(body["apiVersion"])[0], body["kind"]))
    namespace = "default" if resource.namespaced else ""
    try:
        await client.apply(
            resource, namespace, body["metadata"]["name"], encode(sent(body)), ApplyOptions(dry_run=True)
        )
    except ApiError as error:
        return str(error)
    return ""


async def server_errors(client: Client, bodies: Iterable[Mapping[str, Any]]) -> dict[bytes, tuple[str, list[str]]]:
    """What an API server says when `check` asks it, and what `check` makes of it, by the encoded manifests."""
    documents = [Document(body=each, location=NOWHERE, location_of=lambda _: NOWHERE) for each in bodies]
    refusals = await ask(client, [AskedManifest(document=each, body=sent(each.body)) for each in documents])
    return {
        encode(each.manifest.document.body): (str(each.error), [finding.text for finding in server_findings(each)])
        for each in refusals
    }


async def compare(client: Client, trials: Iterable[Trial]) -> Comparison:
    """Compares the verdicts on manifests."""
    mapper, schemas = RESTMapper(client), bundled_schemas(KUBERNETES_VERSION)
    result, slots, trials = Comparison(), asyncio.Semaphore(_REQUESTS), list(trials)
    added = await server_errors(client, (each.body for each in trials if has_types(each.body, schemas)))

    async def one(trial: Trial) -> None:
        ours, (theirs, asked) = errors(trial.body, schemas), added.get(encode(trial.body), ("", []))
        if not theirs:  # `check` may not have asked, or have taken the answer for one about the cluster
            async with slots:
                theirs = await refusal(client, mapper, trial.body)
        if not any(words in theirs for words in OF_THE_CLUSTER):
            result.add(trial, theirs, ours, asked)

    await asyncio.gather(*map(one, trials))
    return result


def mutated(bodies: Iterable[Mapping[str, Any]]) -> Iterator[Trial]:
    """The trials of all mutations of objects."""
    schemas = bundled_schemas(KUBERNETES_VERSION)
    for body in bodies:
        for each in mutations(body, schemas):
            shown = f"{body['kind']}: {each.category}: {field_text(each.path)} is {str(each.value)[:80]!r}"
            yield Trial(each.category, shown, each.body)


def trials_of(folders: Iterable[Path], *, mutate: bool) -> Iterator[Trial]:
    """The trials of the objects in YAML files; each object only once. Files that are no objects are left out."""
    schemas, seen = bundled_schemas(KUBERNETES_VERSION), set()
    for path in sorted(path for folder in folders for path in folder.rglob("*.y*ml") if path.is_file()):
        try:
            documents = objects(path.read_text(), str(path))
        except (FileError, UnicodeDecodeError):
            continue
        for body in (dict(each.body) for each in documents):
            kind = GroupKind(split_api_version(body["apiVersion"])[0], body["kind"])
            text = encode(body)
            if is_built_in(kind.group) and schemas.schema(body["apiVersion"], body["kind"]) and text not in seen:
                seen.add(text)
                yield Trial("as written", f"{path}: {body['kind']} {body['metadata'].get('name')}", body)
                yield from mutated([body]) if mutate else ()


async def _main(arguments: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as state:
        os.environ["SSA_OPERATOR_STATE_DIR"] = state
        cluster = await start(ClusterSpec(name="comparison"))
        try:
            async with Client(await credentials.load(str(cluster.kubeconfig), None)) as client:
                result = await compare(client, trials_of(arguments.folders, mutate=arguments.mutate))
        finally:
            await cluster.stop()
    sys.stdout.write("\n".join(["missed:", *result.missed, "false alarms:", *result.alarms, str(result)]) + "\n")
    return 1 if result.alarms else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--mutate", action="store_true", help="also change each field of each object")
    sys.exit(asyncio.run(_main(parser.parse_args())))
