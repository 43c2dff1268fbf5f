"""The manifests and the kubectl commands of pages, on a real API server: it accepts them in a dry run."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.objects.render_result import Document
from tests.conftest import Kubectl
from tests.docs.blocks import page_templates, yaml_blocks
from tests.docs.blocks.pages import PAGES, Block, blocks
from tests.docs.blocks.programs import BIN, kubectl_words
from tests.docs.blocks.readers import READ_BY_OTHER_TESTS, reader_of
from tests.docs.blocks.schemas import CRD_FOLDERS, crds, schemas
from tests.docs.blocks.typed_commands import Invocation, holds_commands, typed
from tests.packaging.checkout import ROOT

pytestmark = pytest.mark.cluster

CHANGES = {"annotate", "apply", "create", "delete", "replace", "run", "taint"}
"""The commands that change objects, and that take `--dry-run`."""

WORDS = {"KIND": "echo", "NAME": "hello", "NODE": "no-node"}
"""What a reader writes in place of words in capitals."""

COMMANDS = [block for page in PAGES for block in blocks(page) if holds_commands(block) and "kubectl" in block.text]


def is_yaml(block: Block) -> bool:
    """Whether the block is checked as YAML, and not as a template or by another test."""
    reader = reader_of(block)
    return reader is not None and reader.name == "YAML"


def manifests(page: str) -> Iterator[Document]:
    """The whole manifests of a page, and what its templates and kustomizations make."""
    yield from page_templates.rendered_page(page, READ_BY_OTHER_TESTS).manifests
    for block in filter(is_yaml, blocks(page)):
        yield from yaml_blocks.manifests(block)


@pytest.fixture(scope="module")
def served() -> dict[str, list[Mapping[str, Any]]]:
    """The manifests of each page whose kinds the API server serves."""
    return {
        page: [
            each.body
            for each in manifests(page)
            if schemas().schema(each.body["apiVersion"], each.body["kind"]) is not None
        ]
        for page in PAGES
    }


@pytest.fixture(scope="module")
def known_cluster(cluster: Cluster, served: dict[str, list[Mapping[str, Any]]]) -> Iterator[None]:
    """The CRDs of the repository, and the namespaces of the manifests."""
    kubectl = [str(BIN / "kubectl"), f"--kubeconfig={cluster.kubeconfig}"]
    files = [f"--filename={folder}" for folder in CRD_FOLDERS]
    subprocess.run([*kubectl, "apply", "--server-side", *files], check=True, capture_output=True)
    subprocess.run([*kubectl, "wait", "--for=condition=Established", "--timeout=60s", *files], check=True)
    names = {body["metadata"].get("namespace", "default") for found in served.values() for body in found}
    created = [
        name
        for name in sorted(names)
        if subprocess.run([*kubectl, "create", "namespace", name], check=False, capture_output=True).returncode == 0
    ]
    yield
    subprocess.run([*kubectl, "delete", "namespace", "--timeout=90s", *created], check=True, capture_output=True)


@pytest.mark.more_cases
@pytest.mark.parametrize("page", [page for page in PAGES if any("kind:" in block.text for block in blocks(page))])
def test_the_api_server_accepts_each_manifest_of_a_page(
    page: str, known_cluster: None, served: dict[str, list[Mapping[str, Any]]], kubectl: Kubectl
) -> None:
    if bodies := served[page]:
        dry_run = ("--server-side", "--dry-run=server", "--force-conflicts", "--field-manager=pages")
        accepted = kubectl("apply", *dry_run, "--filename=-", input="\n---\n".join(map(json.dumps, bodies)))
        assert len(accepted.splitlines()) == len(bodies)


def test_pages_have_manifests(served: dict[str, list[Mapping[str, Any]]]) -> None:
    assert len([page for page, found in served.items() if found]) > 10


def test_an_invalid_manifest_is_refused(known_cluster: None, kubectl: Kubectl) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "a"}, "spec": {"replicas": -1}}
    with pytest.raises(subprocess.CalledProcessError):
        kubectl("apply", "--server-side", "--dry-run=server", "--filename=-", input=json.dumps(body))


@pytest.mark.more_cases
@pytest.mark.parametrize("block", COMMANDS, ids=str)
def test_kubectl_accepts_the_commands_of_a_block(
    block: Block, known_cluster: None, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = [each for each in typed(block.page)[block].invocations if each.program == "kubectl"]
    assert started
    # No test makes the file that `make manifests` makes; tests/packaging/test_manifests.py installs it.
    known = [each for each in started if "dist/install.yaml" not in each.words]
    assert [answer for each in known if (answer := refused(each, kubectl, monkeypatch))] == []


@pytest.mark.exhaustive
def test_a_wrong_command_is_refused(known_cluster: None, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> None:
    for command, words in {
        "kubectl get echos": 'resource type "echos"',
        "kubectl get nodes -o custom-columns=A": "custom-columns",
        "kubectl delete echo --all --cascade=none": "cascade",
    }.items():
        assert words in refused(Invocation(tuple(command.split()), PurePosixPath()), kubectl, monkeypatch)


def refused(invocation: Invocation, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch) -> str:
    """What kubectl prints if it or the API server refuses a command, '' if not. That an object doesn't exist refuses
    nothing: the kind exists, and the options are right.
    """
    monkeypatch.chdir(ROOT / invocation.folder)
    command, *rest = kubectl_words(invocation.arguments)
    # A dry run starts no container, so it can't attach to one.
    words = [WORDS.get(word, word) for word in invocation.arguments if word not in ("-it", "--rm")]
    if command in CHANGES and rest[:1] != ["token"]:
        words.insert(words.index(command) + (2 if command == "create" else 1), "--dry-run=server")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "no-map", "namespace": "default"}}
    try:
        kubectl(*words, input=json.dumps(body))
    except subprocess.CalledProcessError as error:
        return "" if "not found" in error.stderr else str(error.stderr)
    return ""


@pytest.mark.exhaustive
def test_every_crd_of_the_repository_is_among_the_schemas() -> None:
    kinds = {(crd["spec"]["group"], crd["spec"]["names"]["kind"]) for crd in crds()}
    assert ("example.com", "Echo") in kinds
    assert all(schemas().schema(f"{group}/v1", kind) or schemas().api_versions(kind, group) for group, kind in kinds)
