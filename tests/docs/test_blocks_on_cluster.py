"""The manifests and the kubectl commands of pages, on a real API server: it accepts them in a dry run."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.conftest import Kubectl
from tests.docs.blocks.commands import Words, invocations
from tests.docs.blocks.manifests import BIN, CRD_FOLDERS, documents, schemas
from tests.docs.blocks.pages import PAGES, Block, blocks, yaml_values
from tests.docs.blocks.readers import COMMANDS, reader_of
from tests.packaging.checkout import ROOT

pytestmark = pytest.mark.cluster

CHANGES = {"annotate", "apply", "create", "delete", "replace", "run", "taint"}
"""The commands that change objects, and that take `--dry-run`."""

WORDS = {"KIND": "echo", "NAME": "hello", "NODE": "no-node"}
"""What a reader writes in place of words in capitals."""

BLOCKS = [block for page in PAGES for block in blocks(page) if block.language in COMMANDS and "kubectl " in block.text]


@pytest.fixture(scope="module")
def served() -> dict[str, list[Mapping[str, Any]]]:
    """The manifests of each page whose kinds the API server serves."""
    found: dict[str, list[Mapping[str, Any]]] = {page: [] for page in PAGES}
    for block in (block for page in PAGES for block in blocks(page)):
        reader = reader_of(block)
        if reader is not None and reader.name == "YAML":
            bodies = [each.body for value in yaml_values(block) for each in documents(block, value)]
            found[block.page] += [each for each in bodies if schemas().schema(each["apiVersion"], each["kind"])]
    return found


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
    assert len([page for page, found in served.items() if found]) > 3


def test_an_invalid_manifest_is_refused(known_cluster: None, kubectl: Kubectl) -> None:
    body = {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "a"}, "spec": {"replicas": -1}}
    with pytest.raises(subprocess.CalledProcessError):
        kubectl("apply", "--server-side", "--dry-run=server", "--filename=-", input=json.dumps(body))


@pytest.mark.more_cases
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_kubectl_accepts_the_commands_of_a_block(block: Block, known_cluster: None, kubectl: Kubectl) -> None:
    started = [(folder, words) for folder, words in invocations(block) if words[0] == "kubectl" and words[1] != "ssa"]
    # Other tests apply what the commands of a page write.
    written = {"dist/install.yaml", *re.findall(r"> *(\S+)", block.text)}
    known = [(folder, words) for folder, words in started if written.isdisjoint(words)]
    assert [answer for folder, words in known if (answer := refused(folder, words, kubectl))] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("kubectl get echos", 'resource type "echos"'),
        ("kubectl get nodes -o custom-columns=A", "custom-columns"),
        ("kubectl delete echo --all --cascade=none", "cascade"),
        ("kubectl get pods --all-namespace", "unknown flag: --all-namespace"),
        ("kubectl aply -f examples/echo.yaml", "before plugin name"),
    ],
)
def test_a_wrong_command_is_refused(command: str, message: str, known_cluster: None, kubectl: Kubectl) -> None:
    assert message in refused(ROOT, tuple(command.split()), kubectl)


def refused(folder: Path, command: Words, kubectl: Kubectl) -> str:
    """What kubectl prints if it or the API server refuses a command, '' if not. That an object doesn't exist refuses
    nothing: the kind exists, and the options are right.
    """
    # A dry run starts no container, so it can't attach to one.
    words = [WORDS.get(word, word) for word in command[1:] if word not in ("-it", "--rm")]
    verb = next((at for at, word in enumerate(words) if word in CHANGES), None)
    if verb is not None and words[verb + 1] != "token":
        words.insert(verb + (2 if words[verb] == "create" else 1), "--dry-run=server")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "no-map", "namespace": "default"}}
    try:
        with contextlib.chdir(folder):
            kubectl(*words, input=json.dumps(body))
    except subprocess.CalledProcessError as error:
        return "" if "not found" in error.stderr else str(error.stderr)
    return ""
