"""What `tilt up` is told: images, resources and their order. That Tilt does it is shown by `deploy/dev/tilt-check`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.packaging import tiltfile
from tests.packaging.checkout import ROOT

_TILT = shutil.which(os.environ.get("TILT", "tilt"))
_EXAMPLES = {
    manifest["metadata"]["name"]: manifest
    for path in sorted((ROOT / "examples").glob("*.yaml"))
    for manifest in yaml.safe_load_all(path.read_text())
    if manifest
}


@pytest.fixture(scope="module")
def plain() -> tiltfile.Evaluated:
    """What `tilt up` alone is told."""
    return tiltfile.evaluate({})


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A folder with the sources of an image."""
    (tmp_path / "Dockerfile").write_text("FROM scratch\n")
    return tmp_path


def deployment(evaluated: tiltfile.Evaluated) -> Any:
    (found,) = [each for each in evaluated.manifests if each["kind"] == "Deployment"]
    return found


def test_only_clusters_for_development_are_deployed_to(plain: tiltfile.Evaluated) -> None:
    kind = list(yaml.safe_load_all((ROOT / "deploy" / "dev" / "kind.yaml").read_text()))
    assert {each["name"] for each in kind if each["kind"] == "Cluster"} <= set(plain.contexts)
    assert set(plain.contexts) == {"kind-ssa-operator", "ssa-operator-default", "ssa-operator-tilt-check"}


def test_what_is_saved_goes_where_the_image_has_it(plain: tiltfile.Evaluated) -> None:
    image = plain.images["ssa-operator"]
    stage = (ROOT / "Dockerfile").read_text().split(f" AS {image.target}\n")[1].split("\nFROM ")[0]
    copied = dict(re.findall(r"^COPY --chown=65532:65532 (\S+) (\S+)$", stage, re.MULTILINE))
    assert image.syncs == {source: f"/app/{target}" for source, target in copied.items()}
    assert "templates" in image.syncs
    assert all((ROOT / path).exists() for path in (*image.syncs, *image.rebuilt_by))


def test_what_is_saved_can_be_written_into_a_pod_whose_root_file_system_is_read_only(
    plain: tiltfile.Evaluated,
) -> None:
    pod = deployment(plain)["spec"]["template"]["spec"]
    (operator,), (filling,) = pod["containers"], pod["initContainers"]
    empty = {volume["name"] for volume in pod["volumes"] if "emptyDir" in volume}
    writable = [mount["mountPath"] for mount in operator["volumeMounts"] if mount["name"] in empty]
    for target in plain.images["ssa-operator"].syncs.values():
        assert any(target.startswith(f"{path}/") for path in writable)
    assert filling["image"] == operator["image"] == "ssa-operator"
    assert filling["securityContext"] == operator["securityContext"]
    assert operator["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsNonRoot"] is True


def test_every_object_belongs_to_a_resource(plain: tiltfile.Evaluated) -> None:
    assert [each["metadata"]["name"] for each in plain.manifests if plain.resource_of(each) is None] == []


def test_nothing_is_applied_before_its_kind_is_served(plain: tiltfile.Evaluated) -> None:
    definitions = [each for each in plain.manifests if each["kind"] == "CustomResourceDefinition"]
    wait = plain.resources["crds-established"]
    assert {each for each in wait.command if each.startswith("crd/")} == {
        f"crd/{each['metadata']['name']}" for each in definitions
    }
    assert f"--context={tiltfile.CONTEXT}" in wait.command
    assert {plain.resource_of(each) for each in definitions} == {"crds"}
    assert "crds" in plain.before("crds-established")
    for manifest in plain.manifests:
        if any(manifest["kind"] == each["spec"]["names"]["kind"] for each in definitions):
            assert {"crds-established", "ssa-operator"} <= plain.before(str(plain.resource_of(manifest)))
    assert "crds-established" in plain.before("ssa-operator")


def test_the_rights_of_the_operator_are_applied_with_it(plain: tiltfile.Evaluated) -> None:
    installation = [each for each in plain.manifests if each["metadata"].get("namespace") == "ssa-operator"]
    policies = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    kinds = ("ClusterRole", "ClusterRoleBinding", "Namespace", *policies)
    rights = [each for each in plain.manifests if each["kind"] in kinds]
    assert {each["kind"] for each in rights} == set(kinds)
    assert {"Role", "RoleBinding", "ServiceAccount"} <= {each["kind"] for each in installation}
    assert {plain.resource_of(each) for each in (*installation, *rights)} == {"ssa-operator"}


def test_every_example_is_a_resource_whose_pods_tilt_looks_for(plain: tiltfile.Evaluated) -> None:
    assert len(_EXAMPLES) > 1
    for name, manifest in _EXAMPLES.items():
        assert manifest in plain.manifests
        assert plain.resource_of(manifest) == name
        assert any(kind.matches(manifest) for kind in plain.kinds)


def test_every_example_of_the_gallery_is_offered_and_started_on_demand(plain: tiltfile.Evaluated) -> None:
    gallery = [each.parent for each in (ROOT / "examples").glob("*/templates")]
    assert len(gallery) > 5
    for folder in gallery:
        resource = plain.resources[folder.name]
        assert resource.on_demand
        assert f'--templates="{folder}/templates"' in resource.served[-1]
        for path in folder.glob("*.yaml"):
            assert f'--filename="{path}"' in resource.command[-1]
        assert ("crds apply" in resource.command[-1]) == (folder / "crds").exists()
        assert f"--context={tiltfile.CONTEXT}" in resource.served[-1]
    assert {name for name, each in plain.resources.items() if each.on_demand} == {each.name for each in gallery}


def test_a_database_gets_the_images_whose_sources_are_given(sources: Path) -> None:
    evaluated = tiltfile.evaluate({"neon": str(sources), "compute": str(sources)})
    (kind,) = [each for each in evaluated.kinds if each.matches(_EXAMPLES["neon"])]
    written = {
        path: _EXAMPLES["neon"]["spec"][path.removeprefix("{.spec.").removesuffix("}")] for path in kind.image_paths
    }
    assert set(written.values()) == set(evaluated.images) - {"ssa-operator"}
    assert {evaluated.images[ref].dockerfile for ref in written.values()} == {f"{sources}/Dockerfile"}


def test_images_whose_sources_are_not_given_are_pulled(plain: tiltfile.Evaluated) -> None:
    assert set(plain.images) == {"ssa-operator"}
    assert plain.images["ssa-operator"].build_args == {}


def test_the_compute_image_is_built_as_a_clone_of_neon_has_it(sources: Path) -> None:
    dockerfile = sources / "compute" / "compute-node.Dockerfile"
    dockerfile.parent.mkdir()
    dockerfile.write_text("FROM scratch\n")
    example = _EXAMPLES["neon"]["spec"]
    image = tiltfile.evaluate({"compute": str(sources)}).images[example["compute_image_ref"]]
    assert (image.context, image.dockerfile) == (str(sources), str(dockerfile))
    assert image.build_args == {"PG_VERSION": f"v{example['postgres_version']}"}


def test_another_base_image_can_be_named() -> None:
    assert "ARG BASE=" in (ROOT / "Dockerfile").read_text()
    image = tiltfile.evaluate({"base": "registry.example/python"}).images["ssa-operator"]
    assert image.build_args == {"BASE": "registry.example/python"}


def test_single_resources_can_be_started() -> None:
    assert tiltfile.evaluate({"resources": ["hello"]}).enabled == ("hello",)


@pytest.mark.skipif(_TILT is None, reason="there is no tilt on the PATH, and none is named in TILT")
def test_tilt_itself_finds_the_same_resources_in_the_same_order(
    plain: tiltfile.Evaluated, sources: Path, tmp_path: Path
) -> None:
    assert _TILT is not None
    kubeconfig = tmp_path / "kubeconfig"
    entry = {"name": "here", "context": {"cluster": "here", "user": "here"}}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": tiltfile.CONTEXT,
        "clusters": [{"name": "here", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "here", "user": {"token": "none"}}],
        "contexts": [{**entry, "name": tiltfile.CONTEXT}],
    }
    kubeconfig.write_text(json.dumps(content))
    run = subprocess.run(
        [_TILT, "alpha", "tiltfile-result", "--", "hello", f"--neon={sources}", f"--compute={sources}"],
        cwd=ROOT,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "TILT_DEV_DIR": str(tmp_path), "DO_NOT_TRACK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert set(result["EnabledManifests"]) == {"hello", "ssa-operator", "crds-established", "crds"}
    manifests = {each["Name"]: each for each in result["Manifests"]}
    assert {name: tuple(each["ResourceDependencies"] or ()) for name, each in manifests.items()} == {
        name: each.after for name, each in plain.resources.items()
    }
    assert {each["selector"] for each in manifests["neon"]["ImageTargets"]} == set(
        tiltfile.evaluate({"neon": str(sources), "compute": str(sources)}).images
    ) - {"ssa-operator"}


@pytest.mark.parametrize(("program", "variable"), [("tilt", "TILT"), ("podman", "PODMAN")])
def test_tilt_check_says_what_it_lacks(program: str, variable: str) -> None:
    present = dict.fromkeys(("TILT", "PODMAN", "DOCKER_REGISTRY"), "true")
    run = subprocess.run(
        [str(ROOT / "deploy" / "dev" / "tilt-check")],
        env={**os.environ, **present, variable: f"no-{program}-here"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert f"no-{program}-here was not found" in run.stderr
    assert variable in run.stderr
