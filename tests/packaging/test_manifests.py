"""`make manifests`: one file installs the CRDs and deploy/base."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.conftest import Kubectl
from tests.packaging.checkout import ROOT

PATIENCE = "--timeout=90s"
IMAGE = "registry.example/ssa-operator:1.2.3"


@pytest.fixture
def manifests() -> Path:
    venv = Path(sys.executable).parents[1]
    # The environment that runs the tests is not installed again.
    kept = [f"VENV={venv}", f"--old-file={venv}/.installed"]
    subprocess.run(["make", "manifests", f"IMAGE={IMAGE}", *kept], cwd=ROOT, check=True)
    return ROOT / "dist" / "install.yaml"


@pytest.fixture
def installed(manifests: Path, kubectl: Kubectl) -> Iterator[None]:
    kubectl("apply", "--server-side", f"--filename={manifests}")
    yield
    try:
        kubectl("delete", PATIENCE, f"--kustomize={ROOT / 'deploy' / 'base'}")
    except subprocess.CalledProcessError as error:
        # A CRD whose conversion webhook doesn't answer, for example, keeps each namespace of the cluster.
        error.add_note(kubectl("get", "namespace/ssa-operator", "--ignore-not-found", "--output=jsonpath={.status}"))
        raise


def test_the_pod_has_no_privilege_and_only_labelled_namespaces_connect_to_it() -> None:
    (deployment,) = yaml.safe_load_all((ROOT / "deploy" / "base" / "deployment.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert [volume for volume in pod["volumes"] if "hostPath" in volume] == []
    (policy,) = yaml.safe_load_all((ROOT / "deploy" / "base" / "network-policy.yaml").read_text())
    assert (
        policy["spec"]["podSelector"]["matchLabels"].items()
        <= deployment["spec"]["template"]["metadata"]["labels"].items()
    )
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    (rule,) = policy["spec"]["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}]


@pytest.mark.exhaustive
@pytest.mark.cluster
@pytest.mark.usefixtures("installed")
def test_one_file_starts_the_operator_with_its_image_in_a_restricted_namespace(kubectl: Kubectl) -> None:
    kubectl("wait", "--for=condition=Available", PATIENCE, "--namespace=ssa-operator", "deployment/ssa-operator")
    image = "jsonpath={.spec.template.spec.containers[*].image}"
    assert kubectl("get", "--namespace=ssa-operator", "deployment/ssa-operator", f"--output={image}") == IMAGE
    enforced = r"jsonpath={.metadata.labels.pod-security\.kubernetes\.io/enforce}"
    assert kubectl("get", "namespace/ssa-operator", f"--output={enforced}") == "restricted"
    crds = sorted(path.stem for path in (ROOT / "crds").glob("*.yaml"))
    assert kubectl("get", "crds", *crds, "--output=name").count("\n") == len(crds)
