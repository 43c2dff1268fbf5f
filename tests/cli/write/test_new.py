"""`ssa-operator new` as a process: what it writes passes check and test, and becomes ready on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from ssa_operator.informers.crds import RESOURCE
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.objects.json_codec import encode
from tests.cli.process import run
from tests.conftest import Kubectl
from tests.operator.harness import ROOT, Desk, is_ready
from tests.tools.scaffold.projects import crd, findings, project, rendered
from tests.tools.scaffold.shapes import manifest, workload

GROUP = "new.example.com"


def files_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


async def new(folder: Path, kind: str, *arguments: str) -> tuple[int, str, str]:
    return await run("new", kind, f"--templates={folder / 'templates'}", *arguments)


async def check(folder: Path) -> tuple[int, str, str]:
    return await run("check", f"--templates={folder / 'templates'}", "--strict")


async def test_a_new_resource_has_all_files_and_passes_check(tmp_path: Path) -> None:
    code, out, err = await new(
        tmp_path, "Policy", f"--group={GROUP}", "--field=host:string!", "--field=db.size:quantity=1Gi"
    )
    assert (code, err) == (0, "")
    files = files_in(tmp_path)
    assert files == [
        "examples/policy.yaml",
        f"templates/policies.{GROUP}/_schema.yaml",
        f"templates/policies.{GROUP}/_status.yaml.j2",
        f"templates/policies.{GROUP}/deployment.yaml.j2",
        f"templates/policies.{GROUP}/service.yaml.j2",
        f"tests/policies.{GROUP}/example/expected.yaml",
        f"tests/policies.{GROUP}/example/parent.yaml",
        f"tests/policies.{GROUP}/example/status.yaml",
    ]
    *created, last = out.splitlines()
    assert sorted(created) == sorted(f"created {tmp_path / file}" for file in files)
    folders = " ".join(f"--{name} {tmp_path / name}" for name in ("templates", "examples"))
    assert last == f"next: ssa-operator dev {folders}"
    assert (await check(tmp_path))[::2] == (0, "")
    (version,) = crd(tmp_path)["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    assert [each["name"] for each in version["additionalPrinterColumns"]] == ["Ready", "Reason", "Message", "Age"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
    assert status["conditions"]["x-kubernetes-list-map-keys"] == ["type"]
    assert "resources" in status


@pytest.mark.exhaustive
async def test_a_second_resource_in_the_project_passes_check_too(tmp_path: Path) -> None:
    for kind in ("Policy", "Thing"):
        assert (await new(tmp_path, kind, f"--group={GROUP}"))[0] == 0
    assert await check(tmp_path) == (0, "", "")


async def test_nothing_is_overwritten_and_all_that_exists_is_named(tmp_path: Path) -> None:
    assert (await new(tmp_path, "Thing", f"--group={GROUP}"))[0] == 0
    template = tmp_path / "templates" / f"things.{GROUP}" / "service.yaml.j2"
    template.write_text("mine")
    (tmp_path / "examples" / "thing.yaml").unlink()
    code, out, err = await new(tmp_path, "Thing", f"--group={GROUP}")
    assert (code, out) == (1, "")
    assert f"templates/things.{GROUP}/_schema.yaml, " in err
    assert "exist already; nothing was written" in err
    assert "examples/thing.yaml" not in err
    assert not (tmp_path / "examples" / "thing.yaml").exists()
    assert template.read_text() == "mine"


async def test_a_dry_run_prints_the_files_and_writes_nothing(tmp_path: Path) -> None:
    code, out, _ = await new(tmp_path, "Thing", f"--group={GROUP}", "--dry-run")
    assert code == 0
    assert f"# {tmp_path}/templates/things.{GROUP}/_schema.yaml\n" in out
    assert "replicas: integer | default=1 minimum=0" in out
    assert "replicas: {{ spec.replicas }}" in out
    assert files_in(tmp_path) == []


async def test_the_json_lists_files_parameters_and_notes(tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text(json.dumps(workload()))
    arguments = (f"--group={GROUP}", f"--from-manifests={tmp_path / 'in.yaml'}", "--output=json")
    code, out, err = await new(tmp_path, "Thing", *arguments)
    assert (code, err) == (0, "")
    made = json.loads(out)
    assert made["parameters"] == [
        {"field": "spec.replicas", "default": 2, "manifests": ["Deployment rel-web"]},
        {"field": "spec.image", "default": "shop:1", "manifests": ["Deployment rel-web"]},
    ]
    assert sorted([*(each["path"] for each in made["files"]), str(tmp_path / "in.yaml")]) == [
        str(tmp_path / each) for each in files_in(tmp_path)
    ]
    assert made["notes"] == []


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("Thing",), "the API group is missing; name it with --group"),
        (("thing", "--group=example.com"), "'thing' is no valid kind"),
        (("Thing", "--group=com"), "with at least one dot"),
        (("Thing", "--group=example.com", "--field=a"), "--field a is no field"),
        (("Thing", "--group=example.com", "--field=a:int", "--from-crd=x"), "--field and --from-crd both say"),
        (("Thing", "--group=example.com", "--instance=x"), "use it with that option"),
        (("Thing", "--group=example.com", "--from-manifests=nowhere"), "nowhere can't be read"),
    ],
)
async def test_wrong_usage_is_refused_in_one_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    kind, *options = arguments
    code, out, err = await new(tmp_path, kind, *options)
    assert code in (1, 2)
    assert out == ""
    assert words in err
    assert len(err.splitlines()) == 1
    assert files_in(tmp_path) == []


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        (
            "manifests",
            "kind: Service\napiVersion: v1\nmetadata: {name: x}\nspec: {ports: 1}\n",
            ":4: Service x: spec.ports",
        ),
        (
            "manifests",
            "kind: Secret\napiVersion: v1\nmetadata: {name: x}\ndata: hidden\n",
            ":4: Secret x: data must be",
        ),
        (
            "crd",
            (
                "kind: CustomResourceDefinition\napiVersion: apiextensions.k8s.io/v1\nmetadata: {name: x}\n"
                "spec:\n  {group: example.com, names: {kind: Thing, plural: things}, versions: [1]}\n"
            ),
            ":5: CustomResourceDefinition x: spec.versions[0] must be a mapping",
        ),
    ],
)
async def test_a_source_with_a_value_of_a_wrong_type_is_refused_with_its_line(
    tmp_path: Path, option: str, text: str, words: str
) -> None:
    source = tmp_path / "source.yaml"
    source.write_text(text)
    code, out, err = await new(tmp_path / "made", "Thing", "--group=example.com", f"--from-{option}={source}")
    assert (code, out) == (1, "")
    assert f"{source}{words}" in err
    assert len(err.splitlines()) == 1
    assert "hidden" not in err


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, out, err = await new(tmp_path / "file", "Thing", "--group=example.com")
    assert (code, out) == (2, "")
    assert f"can't write {tmp_path / 'file'}" in err
    assert len(err.splitlines()) == 1


EXAMPLE = """\
apiVersion: new.example.com/v1
kind: Cache
metadata: {name: fast, namespace: default, uid: abc}
spec:
  replicas: 3
  size: 1Gi
  ratio: 0.5
  nodeSelector: {disk: ssd}
  users: [{name: a, admin: true}, {name: b, quota: 3}]
  odd-key: {"80": x}
  nothing: null
  none: []
  resources: {limits: {cpu: 1, memory: 1Gi}}
status: {phase: old}
"""


async def test_the_types_of_an_example_become_the_schema(tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text(EXAMPLE)
    code, _, err = await new(tmp_path, "Cache", f"--from-example={tmp_path / 'in.yaml'}")
    assert (code, err) == (0, "")
    assert (await check(tmp_path))[::2] == (0, "")
    (version,) = crd(tmp_path)["spec"]["versions"]
    assert version["name"] == "v1"
    fields = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert (fields["replicas"], fields["ratio"]) == ({"type": "integer"}, {"type": "number"})
    assert fields["size"]["x-kubernetes-int-or-string"] is True
    assert fields["nodeSelector"] == {"type": "object", "additionalProperties": {"type": "string"}}
    assert set(fields["users"]["items"]["properties"]) == {"name", "admin", "quota"}
    example = yaml.safe_load((tmp_path / "examples" / "cache.yaml").read_text())
    assert example["metadata"] == {"name": "fast", "namespace": "default"}
    assert "status" not in example


async def test_an_example_of_another_kind_or_group_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.yaml").write_text(EXAMPLE)
    option = f"--from-example={tmp_path / 'in.yaml'}"
    assert "the kind is Store, and the example has Cache" in (await new(tmp_path, "Store", option))[2]
    assert (
        "--group is a.b, and the example has new.example.com"
        in (await new(tmp_path, "Cache", option, "--group=a.b"))[2]
    )


async def test_a_crd_in_place_of_a_short_schema_is_the_same_resource(tmp_path: Path) -> None:
    fields = ("--field=db.size:quantity=1Gi", "--field=wait:duration=30s", "--field=site.host:string!")
    short, whole = tmp_path / "short", tmp_path / "whole"
    for folder, options in ((short, ()), (whole, ("--crd",))):
        assert (await new(folder, "Thing", f"--group={GROUP}", *fields, *options))[::2] == (0, "")
        assert (await check(folder))[::2] == (0, "")
    assert crd(short) == crd(whole)
    assert (whole / "crds" / f"things.{GROUP}.yaml").is_file()
    others = {each for each in files_in(short) if not each.endswith("_schema.yaml")}
    assert all((short / each).read_text() == (whole / each).read_text() for each in others)
    # A CRD that a short schema can express becomes one.
    again = tmp_path / "again"
    source = whole / "crds" / f"things.{GROUP}.yaml"
    assert (await new(again, "Thing", f"--from-crd={source}"))[0] == 0
    assert crd(again) == crd(whole)
    assert not (again / "crds").exists()


async def test_a_short_schema_is_used_as_it_is(tmp_path: Path) -> None:
    schema = tmp_path / "templates" / f"sites.{GROUP}" / "_schema.yaml"
    schema.parent.mkdir(parents=True)
    text = "# mine\nkind: Site\nspec:\n  size: integer | default=2 # pods\n"
    schema.write_text(text)
    code, out, err = await new(tmp_path, "Site", f"--from-crd={schema}")
    assert (code, err) == (0, "")
    assert schema.read_text() == text
    assert "_schema.yaml" not in out
    assert (await check(tmp_path))[::2] == (0, "")
    # Elsewhere it is copied; without a folder of its name it takes that of the options.
    (tmp_path / "_schema.yaml").write_text(text)
    other = tmp_path / "other"
    code, _, err = await new(other, "Site", "--group=b.example.com", f"--from-crd={tmp_path / '_schema.yaml'}")
    assert (code, err) == (0, "")
    assert (other / "templates" / "sites.b.example.com" / "_schema.yaml").read_text() == text
    schema.write_text("kind: Site\nspec: {size: integr}\n")
    code, _, err = await new(tmp_path / "third", "Site", f"--from-crd={schema}")
    assert code == 1
    assert f"{schema}:2: spec.size: there is no type integr; did you mean integer?" in err


async def test_an_existing_crd_is_used_as_it_is(tmp_path: Path) -> None:
    source = ROOT / "crds" / "echoes.example.com.yaml"
    code, out, err = await new(tmp_path, "Echo", f"--from-crd={source}")
    assert (code, err) == (0, "")
    assert (tmp_path / "crds" / source.name).read_text() == source.read_text()
    assert "_status.yaml.j2" not in out
    assert (await check(tmp_path))[::2] == (0, "")
    # In the folder of CRDs it stays where it is.
    other = tmp_path / "other"
    (other / "crds").mkdir(parents=True)
    (other / "crds" / "any-name.yaml").write_text(source.read_text())
    code, out, err = await new(other, "Echo", f"--from-crd={other / 'crds' / 'any-name.yaml'}")
    assert (code, err) == (0, "")
    assert [path.name for path in (other / "crds").iterdir()] == ["any-name.yaml"]


NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9_]{0,6}", fullmatch=True) | st.sampled_from(
    ["replicas", "image", "port", "resources", "items", "name", "true", "null", "if", "is", "get"]
)
TYPES = st.sampled_from(["string", "int", "bool", "number", "quantity", "duration", "object"])
DEFAULTS = {
    "string": ["", "x", "{{ a }}", "80", "true", "a: b"],
    "int": ["0", "-5", "7"],
    "bool": ["true", "false"],
    "number": ["0", "-1.5", "1e3"],
    "quantity": ["1", "500m", "1Gi", "1.5G"],
    "duration": ["30s", "1h30m"],
    "object": ["{}", '{"a": [1, null]}'],
}


@st.composite
def fields(draw: st.DrawFn) -> list[str]:
    """Options `--field` that don't contradict each other."""
    found: dict[tuple[str, ...], str] = {}
    for _ in range(draw(st.integers(1, 6))):
        path = tuple(draw(st.lists(NAMES, min_size=1, max_size=3)))
        if any(path[: len(other)] == other or other[: len(path)] == path for other in found):
            continue
        kind, form = draw(TYPES), draw(st.sampled_from(["", "[]", "map[string]"]))
        end = draw(st.sampled_from(["", "!", "="]))
        if end == "=":
            end = {"[]": "=[]", "map[string]": "={}"}.get(form, "=" + draw(st.sampled_from(DEFAULTS[kind])))
            if path[-1] in ("replicas", "port") and kind == "int" and not form:
                end = "=3"
        found[path] = f"--field={'.'.join(path)}:{form}{kind}{end}"
    return list(found.values())


@pytest.mark.cluster
@pytest.mark.exhaustive
async def test_any_fields_give_a_crd_that_the_api_server_accepts_and_no_findings(client: Client) -> None:
    loop = asyncio.get_running_loop()

    async def accepted(definition: Mapping[str, Any]) -> None:
        body = encode(definition)
        await client.apply(RESOURCE, "", "things.example.com", body, ApplyOptions(dry_run=True))

    @settings(max_examples=40, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @example(['--field=resources:object={"a": [1, null]}'])
    @given(fields())
    def check_fields(options: list[str]) -> None:
        with project(*options) as folder:
            asyncio.run_coroutine_threadsafe(accepted(crd(folder)), loop).result(30)
            # A default image without a version is a finding, rightly.
            known = {"latest-image"} if any(each.startswith("--field=image:string=") for each in options) else set()
            assert [each for each in findings(folder) if each["code"] not in known] == []
            assert [each["kind"] for each in rendered(folder)] == ["Deployment", "Service"]

    await asyncio.to_thread(check_fields)


def shop() -> str:
    """Manifests as `helm template` prints them."""
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    database = workload("rel-db", "StatefulSet", replicas=1, resources={"limits": {"cpu": 1, "memory": "64Mi"}})
    database["spec"] |= {
        "serviceName": "rel-db",
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    ports = {"ports": [{"name": "http", "port": 80}], "selector": {"part": "rel-db"}, "clusterIP": "None"}
    objects = [
        workload("rel-web"),
        database,
        manifest("Service", "rel-db", spec=ports),
        manifest("Secret", "rel", data={"password": "aHVudGVyMg=="}),
        manifest("ConfigMap", "rel", data={"rules": "{{ $labels.pod }} and {{ $value }}"}),
    ]
    return "\n---\n".join(map(json.dumps, objects))


@pytest.mark.more_cases
@pytest.mark.cluster
@pytest.mark.parametrize("source", ["plain", "manifests", "example"])
async def test_a_new_resource_becomes_ready(desk: Desk, tmp_path: Path, source: str) -> None:
    kind = f"{source.capitalize()}Thing"
    options = [f"--group={GROUP}"]
    if source == "manifests":
        (tmp_path / "in.yaml").write_text(shop())
        options.append(f"--from-manifests={tmp_path / 'in.yaml'}")
    elif source == "example":
        (tmp_path / "in.yaml").write_text(EXAMPLE.replace("Cache", kind))
        options.append(f"--from-example={tmp_path / 'in.yaml'}")
    code, _, err = await new(tmp_path, kind, *options)
    assert code == 0, err
    assert (await check(tmp_path))[::2] == (0, "")
    where = (f"--kubeconfig={desk.kubeconfig}",)
    crds = (
        tmp_path / "crds"
        if source == "example"
        else tmp_path / "templates" / f"{kind.lower()}s.{GROUP}" / "_schema.yaml"
    )
    code, _, err = await run("crds", "apply", "-f", str(crds), *where)
    assert code == 0, err
    path = tmp_path / "examples" / f"{kind.lower()}.yaml"
    path.write_text(path.read_text().replace("namespace: default", f"namespace: {desk.namespace}"))
    code, _, err = await run("apply", str(path), f"--templates={tmp_path / 'templates'}", *where)
    assert (code, err) == (0, "")
    name = yaml.safe_load(path.read_text())["metadata"]["name"]
    parent = await desk.read(f"{kind.lower()}s.{GROUP}", name)
    assert is_ready(parent)
    assert {each["state"] for each in parent["status"]["resources"]} == {"Current"}


RUNNING = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: web-conf}
data: {index.html: hello}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: NodePort
  selector: {app: web}
  ports: [{port: 80}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: nginx:1.29
          volumeMounts: [{name: conf, mountPath: /conf}]
      volumes: [{name: conf, configMap: {name: web-conf}}]
"""


@pytest.mark.cluster
async def test_what_kubectl_gets_from_a_cluster_becomes_an_operator(
    desk: Desk, kubectl: Kubectl, tmp_path: Path
) -> None:
    """A second instance of objects that were made by hand, beside the first one."""
    where = f"--namespace={desk.namespace}"
    await asyncio.to_thread(kubectl, "apply", where, "-f", "-", input=RUNNING)
    await asyncio.to_thread(kubectl, "wait", where, "--for=condition=Available", "--timeout=60s", "deployment/web")
    kinds = "deployments,replicasets,pods,services,configmaps,serviceaccounts,endpointslices"
    got = await asyncio.to_thread(kubectl, "get", where, kinds, "-o", "yaml")
    templates = f"--templates={tmp_path / 'templates'}"
    arguments = (f"--group={GROUP}", "--from-manifests=-", templates, "--output=json")
    code, out, err = await run("new", "Page", *arguments, stdin=got)
    assert (code, err) == (0, "")
    left_out = " ".join(note for note in json.loads(out)["notes"] if " left out: " in note)
    for kind in ("ReplicaSet", "Pod", "ConfigMap kube-root-ca.crt", "ServiceAccount default", "EndpointSlice"):
        assert f"{kind} " in left_out
    assert (await check(tmp_path))[::2] == (0, "")
    made = rendered(tmp_path, "page")
    assert [(each["kind"], each["metadata"]["name"]) for each in made] == [
        ("ConfigMap", "web-conf"),
        ("Deployment", "web"),
        ("Service", "web"),
    ]
    assert set(made[1]["spec"]) == {"replicas", "selector", "template"}
    assert set(made[2]["spec"]) >= {"type", "selector", "ports"}
    assert "nodePort" not in made[2]["spec"]["ports"][0]
    schema = tmp_path / "templates" / f"pages.{GROUP}" / "_schema.yaml"
    assert (await run("crds", "apply", "-f", str(schema), f"--kubeconfig={desk.kubeconfig}"))[0] == 0
    parent = {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "Page",
        "metadata": {"name": "second", "namespace": desk.namespace},
        "spec": {"replicas": 1},
    }
    code, _, err = await run(
        "apply",
        "-",
        f"--templates={tmp_path / 'templates'}",
        f"--kubeconfig={desk.kubeconfig}",
        stdin=json.dumps(parent),
    )
    assert (code, err) == (0, "")
    deployment = await desk.read("deployments.apps", "second")
    assert deployment["status"]["readyReplicas"] == 1
    assert deployment["spec"]["selector"]["matchLabels"] == {"app": "second"}
    assert (await desk.read("deployments.apps", "web"))["status"]["readyReplicas"] == 2
