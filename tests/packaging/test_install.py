"""The manifests in deploy/, applied to a real cluster: their rights suffice, and no pod is turned away."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from ssa_operator.devcluster.cluster import Cluster
from tests.conftest import Kubectl
from tests.devcluster.waiting import until
from tests.packaging.checkout import ROOT

pytestmark = pytest.mark.cluster

PATIENCE = "--timeout=90s"


@pytest.fixture(scope="module")
def installed(cluster: Cluster) -> Iterator[None]:
    """The CRDs and deploy/base in the cluster, as docs/install.md says."""
    kubectl = [str(Path(sys.executable).parent / "kubectl"), f"--kubeconfig={cluster.kubeconfig}"]
    for arguments in (
        ["apply", "--server-side", "--filename=crds"],
        ["wait", "--for=condition=Established", PATIENCE, "--filename=crds"],
        ["apply", "--kustomize=deploy/base"],
    ):
        subprocess.run([*kubectl, *arguments], cwd=ROOT, check=True)
    yield
    subprocess.run([*kubectl, "delete", PATIENCE, "--kustomize=deploy/base"], cwd=ROOT, check=True)


@pytest.fixture
def kubeconfig(installed: None, cluster: Cluster, kubectl: Kubectl, tmp_path: Path) -> Path:
    """A kubeconfig of the operator's service account, in the namespace where its pod is."""
    content = yaml.safe_load(cluster.kubeconfig.read_text())
    content["contexts"][0]["context"]["namespace"] = "ssa-operator"
    content["users"][0]["user"] = {"token": kubectl("create", "token", "ssa-operator", "--namespace=ssa-operator")}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.fixture
def growing(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """The name of a StorageClass whose volumes can grow."""
    shown = json.loads(kubectl("get", "storageclass", "standard", "--output=json"))
    body = {**shown, "metadata": {"name": f"grows-{namespace}"}, "allowVolumeExpansion": True}
    kubectl("apply", "--filename=-", input=json.dumps(body))
    yield body["metadata"]["name"]
    kubectl("delete", "storageclass", body["metadata"]["name"])


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A copy of the templates that belongs to the test."""
    return Path(shutil.copytree(ROOT / "templates", tmp_path / "templates"))


@pytest.fixture
def operator(kubeconfig: Path, templates: Path, namespace: str, tmp_path: Path) -> Iterator[Path]:
    """An operator with the rights of deploy/base for one namespace; the file that it logs to."""
    log = tmp_path / "operator.log"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SSA_OPERATOR_")}
    with log.open("w") as stream:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "ssa_operator", "run", f"--kubeconfig={kubeconfig}"),
                *(f"--templates={templates}", f"--namespace={namespace}", "--listen="),
            ],
            cwd=ROOT,
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
        )
        try:
            yield log
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(timeout=60)
    assert code == 0, log.read_text()


def echo(namespace: str) -> str:
    metadata = {"name": "hello", "namespace": namespace}
    return json.dumps({"apiVersion": "example.com/v1", "kind": "Echo", "metadata": metadata, "spec": {"replicas": 1}})


@pytest.mark.slow
def test_the_operator_needs_no_other_rights_than_it_is_given(
    operator: Path, templates: Path, kubectl: Kubectl, namespace: str
) -> None:
    kubectl("apply", "--filename=-", input=echo(namespace))
    kubectl("wait", "--for=condition=Ready", PATIENCE, f"--namespace={namespace}", "echo/hello")

    template = templates / "echoes.example.com" / "deployment.yaml.j2"
    template.write_text(
        template.read_text().replace("  name: {{ name }}\n  labels:", "  name: {{ name }}-new\n  labels:")
    )
    held = "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=PruneHeld"
    kubectl("wait", held, PATIENCE, f"--namespace={namespace}", "echo/hello")
    kubectl("annotate", f"--namespace={namespace}", "echo/hello", "ssa-operator.dev/reconcile-at=now")
    kubectl("wait", "--for=delete", PATIENCE, f"--namespace={namespace}", "deployment/hello")
    kubectl("wait", "--for=condition=Ready", PATIENCE, f"--namespace={namespace}", "echo/hello")
    children = kubectl("get", "deployments", f"--namespace={namespace}", "--output=name")

    assert children.split() == ["deployment.apps/hello-new"]
    assert "forbidden" not in operator.read_text().lower()


@pytest.mark.exhaustive
def test_the_rights_suffice_for_a_database_that_changes(
    operator: Path, templates: Path, kubectl: Kubectl, namespace: str, growing: str
) -> None:
    def ready(**spec: object) -> None:
        body = {"apiVersion": "melenion.com/v1", "kind": "NeonDatabase", "metadata": {"name": "db"}}
        always = {"postgres_version": 17, "storage_class": growing, "safekeepers": {"count": 1}}
        whole = {**body, "spec": {**always, **spec}}
        generation = kubectl(
            *("apply", f"--namespace={namespace}", "--filename=-", "--output=jsonpath={.metadata.generation}"),
            input=json.dumps(whole),
        )
        for path in ("observedGeneration", 'conditions[?(@.type=="Ready")].observedGeneration'):
            seen = f"--for=jsonpath={{.status.{path}}}={generation}"
            kubectl("wait", seen, PATIENCE, f"--namespace={namespace}", "nd/db")
        kubectl("wait", "--for=condition=Ready", PATIENCE, f"--namespace={namespace}", "nd/db")

    ready()
    ready(neon_image_ref="neon:2", minio={"storage_size": "51Gi"})
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert kubectl("get", f"--namespace={namespace}", "job/db-tenant", f"--output={image}") == "neon:2"
    size = "jsonpath={.spec.resources.requests.storage}"
    assert kubectl("get", f"--namespace={namespace}", "pvc/data-db-minio-0", f"--output={size}") == "51Gi"

    names = templates / "_shared" / "neon.yaml.j2"
    names.write_text(names.read_text().replace('else "-") ~ component', 'else "-new-") ~ component'))
    held = "--for=jsonpath={.status.conditions[?(@.type=='Ready')].reason}=PruneHeld"
    kubectl("wait", held, PATIENCE, f"--namespace={namespace}", "nd/db")
    assert "forbidden" not in operator.read_text().lower()


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
async def test_the_operator_can_not_write_the_secrets_of_others(kubectl: Kubectl, namespace: str) -> None:
    account = "--as=system:serviceaccount:ssa-operator:ssa-operator"
    where = f"--namespace={namespace}"

    def is_refused(*arguments: str) -> bool:
        """Whether the API server refuses a change or deletion by the operator."""
        try:
            kubectl(*arguments, account, where)
        except subprocess.CalledProcessError as error:
            message = error.stderr
        else:
            return False
        assert "denied request: the operator changes only Secrets that it created" in message
        return True

    kubectl("create", "secret", "generic", "others", where)
    # The API server begins to enforce a new policy a moment after its creation.
    await until(lambda: is_refused("annotate", "--overwrite", "secret/others", "a.b/c=d"))
    assert is_refused("delete", "secret/others")
    own = {"name": "own", "labels": {"ssa-operator.dev/parent-uid": "1"}}
    kubectl("apply", where, "--filename=-", input=json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": own}))
    assert not is_refused("annotate", "secret/own", "a.b/c=d")
    assert not is_refused("delete", "secret/own")


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_the_pod_is_admitted_where_pod_security_is_restricted(kubectl: Kubectl) -> None:
    enforced = kubectl("get", "namespace", "ssa-operator", "--output=jsonpath={.metadata.labels}")
    assert json.loads(enforced)["pod-security.kubernetes.io/enforce"] == "restricted"
    kubectl("wait", "--for=condition=Available", PATIENCE, "--namespace=ssa-operator", "deployment/ssa-operator")
