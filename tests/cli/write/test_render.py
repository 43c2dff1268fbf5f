"""`ssa-operator render` with and without a cluster: manifests, what would wait, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Applied, Client
from ssa_operator.kube.api.request import DEFAULT_APPLY, ApplyOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.auth.credentials import Credentials
from ssa_operator.objects.json_codec import encode
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run
from tests.operator.harness import ROOT, Desk, administrator, config_map, definition, echo, operating
from tests.secret_contents import SecretSearch


def folder(tmp_path: Path, **files: str) -> Path:
    """A folder of templates for Echo: each by its name, and `_settings.yaml`."""
    path = tmp_path / "templates" / "echoes.example.com"
    path.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (path / (name if name == "_settings.yaml" else f"{name}.yaml.j2")).write_text(text)
    return path.parent


def manifest(name: str = "a", kind: str = "ConfigMap", api: str = "v1", **metadata: Any) -> str:
    return json.dumps({"apiVersion": api, "kind": kind, "metadata": {"name": name} | metadata})


def only_name(tmp_path: Path, text: str) -> Path:
    """A template of a ConfigMap whose data is an expression."""
    return folder(
        tmp_path, a=f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: "{{{{ {text} }}}}"}}\n'
    )


ROLE = "rbac.authorization.k8s.io/v1"


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (manifest(namespace="other"), "ConfigMap other/a is outside its parent's namespace default"),
        (manifest(kind="ClusterRole", api=ROLE), "ClusterRole a is cluster-scoped; set `clusterScope: true`"),
        (manifest(kind="ClusterRole", api=ROLE, namespace="b"), "ClusterRole a is cluster-scoped; remove"),
        (
            manifest(annotations={"ssa-operator.dev/prun": "false"}),
            "ConfigMap default/a is invalid: annotation ssa-operator.dev/prun is not",
        ),
        (
            manifest(kind="PersistentVolumeClaim", annotations={"ssa-operator.dev/recreate": "Background"}),
            "PersistentVolumeClaim default/a has the annotation ssa-operator.dev/recreate: Background",
        ),
        (
            json.dumps(json.loads(manifest(kind="Secret")) | {"data": {"a": "%"}}),
            "Secret default/a has data.a that is not base64",
        ),
    ],
)
async def test_render_refuses_what_the_operator_refuses_with_file_and_line(
    tmp_path: Path, text: str, words: str
) -> None:
    templates = folder(tmp_path, a=f"# A comment.\n{text}\n", b=manifest("fine"))
    for option in ("--as-applied", "--output=yaml"):
        code, out, err = await run("render", "-", option, f"--templates={templates}", stdin=json.dumps(echo("web")))
        assert code == 1
        assert f"echoes.example.com/a.yaml.j2:2: {words}" in err
        assert "(for Echo web)" in err
        assert [body["metadata"]["name"] for body in yaml.safe_load_all(out)] == ["fine"]


async def test_an_object_that_is_rendered_twice_is_refused_with_both_locations(tmp_path: Path) -> None:
    templates = folder(tmp_path, a=f"{manifest()}\n---\n{manifest('b')}\n", b=manifest(namespace="default"))
    code, out, err = await run("render", "-", f"--templates={templates}", stdin=json.dumps(echo("web")))
    assert code == 1
    first = "echoes.example.com/a.yaml.j2:1"
    assert (
        f"echoes.example.com/b.yaml.j2:1: ConfigMap default/a is rendered twice, first at {first} (for Echo web)" in err
    )
    assert [body["metadata"]["name"] for body in yaml.safe_load_all(out)] == ["a", "b"]


async def test_an_object_that_two_parents_render_is_refused_for_the_second_one(tmp_path: Path) -> None:
    templates = folder(tmp_path, a=manifest())
    both = {"apiVersion": "v1", "kind": "List", "items": [echo("one"), echo("two")]}
    code, _, err = await run("render", "-", f"--templates={templates}", stdin=json.dumps(both))
    assert code == 1
    words = "ConfigMap default/a belongs to Echo default/one already; give it another name (for Echo two)"
    assert f"echoes.example.com/a.yaml.j2:1: {words}" in err
    both["items"] = [echo("one", 1), echo("one", 2)]
    assert (await run("render", "-", f"--templates={templates}", stdin=json.dumps(both)))[0] == 0


async def test_with_cluster_scope_children_may_be_in_any_namespace(tmp_path: Path) -> None:
    texts = {"a": manifest(namespace="other"), "b": manifest(kind="ClusterRole", api=ROLE)}
    templates = folder(tmp_path, **texts, **{"_settings.yaml": "clusterScope: true\n"})
    code, out, err = await run("render", "-", "--as-applied", f"--templates={templates}", stdin=json.dumps(echo("web")))
    assert (code, err) == (0, "")
    assert all("ownerReferences" not in body["metadata"] for body in yaml.safe_load_all(out))


async def test_every_fault_is_named_at_once(tmp_path: Path) -> None:
    templates = folder(
        tmp_path,
        a=manifest(namespace="other"),
        b="data: {{ spec.nothing }}\n",
        c=manifest(annotations={"ssa-operator.dev/on": "finalize", "ssa-operator.dev/x": "y"}),
        _status="\nphase: {{ spec.phase }}\n",
    )
    (templates / "deployments.apps").mkdir()
    (templates / "deployments.apps" / "a.yaml.j2").write_text("{% if %}")
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    items = [config_map("lost"), deployment, echo("web")]
    stdin = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    code, _, err = await run("render", "-", f"--templates={templates}", stdin=stdin)
    assert code == 1
    lines = err.splitlines()
    for words in (
        "standard input:1: no templates for ConfigMap lost: there is no folder configmaps",
        "deployments.apps/a.yaml.j2:1: ",
        "echoes.example.com/a.yaml.j2:1: ConfigMap other/a is outside",
        "echoes.example.com/b.yaml.j2:1: spec.nothing is missing",
        "echoes.example.com/c.yaml.j2:1: ConfigMap default/a is invalid: annotation ssa-operator.dev/x",
        "echoes.example.com/_status.yaml.j2:2: spec.phase is missing",
    ):
        assert sum(words in line for line in lines) == 1, words
    assert len(lines) == 6


async def test_finalize_hooks_are_shown(tmp_path: Path) -> None:
    templates = folder(tmp_path, a=manifest(annotations={"ssa-operator.dev/on": "finalize"}))
    code, out, _ = await run("render", "-", f"--templates={templates}", stdin=json.dumps(echo("web")))
    assert code == 0
    assert yaml.safe_load(out)["metadata"]["name"] == "a"


def echoes(path: Path, **spec: Any) -> Path:
    """A folder with a CRD of Echos, whose spec has this schema."""
    path.mkdir(parents=True, exist_ok=True)
    crd = definition("echoes", "example.com", "Echo")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"] = {"type": "object", **spec}
    (path / "echoes.yaml").write_text(json.dumps(crd))
    return path


REPLICAS = {"replicas": {"type": "integer", "default": 3}}
EMPTY = json.dumps({"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "web"}, "spec": {}})


async def test_a_parent_gets_the_defaults_of_the_crd_beside_the_templates(tmp_path: Path) -> None:
    templates = only_name(tmp_path, "spec.replicas")
    code, _, err = await run("render", "-", f"--templates={templates}", stdin=EMPTY)
    assert code == 1
    assert "spec.replicas is missing" in err
    echoes(tmp_path / "crds", properties=REPLICAS)
    code, out, err = await run("render", "-", f"--templates={templates}", stdin=EMPTY)
    assert (code, err) == (0, "")
    assert yaml.safe_load(out)["data"] == {"a": "3"}


async def test_a_crd_in_another_folder_can_be_named(tmp_path: Path) -> None:
    templates = only_name(tmp_path, "spec.replicas")
    echoes(tmp_path / "crds", properties={})
    crds = echoes(tmp_path / "more", properties=REPLICAS)
    for option, environment in ((f"--crds={crds}", {}), ("--strict", {"SSA_OPERATOR_CRDS": str(crds)})):
        code, out, _ = await run("render", "-", option, f"--templates={templates}", stdin=EMPTY, **environment)
        assert code == 0
        assert yaml.safe_load(out)["data"] == {"a": "3"}


async def test_a_default_needs_the_object_around_it(tmp_path: Path) -> None:
    templates = only_name(tmp_path, "spec.replicas")
    bare = json.dumps({"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": "web"}})
    echoes(tmp_path / "crds", properties=REPLICAS)
    code, _, err = await run("render", "-", f"--templates={templates}", stdin=bare)
    assert code == 1
    assert "spec.replicas is missing" in err
    echoes(tmp_path / "crds", properties=REPLICAS, default={})
    code, out, _ = await run("render", "-", f"--templates={templates}", stdin=bare)
    assert yaml.safe_load(out)["data"] == {"a": "3"}


RULES = [
    {"rule": "self.replicas < 5", "message": "at most 4 replicas", "fieldPath": ".replicas"},
    {"rule": "self.replicas < future()"},
]
DECLARED = {"replicas": {"type": "integer", "minimum": 1, "maximum": 9}, "host": {"type": "string"}}
WEB = """# An Echo.
apiVersion: example.com/v1
kind: Echo
metadata:
  name: web
spec:
  hots: a
  replicas: {}
"""


@pytest.mark.parametrize(
    ("replicas", "words"),
    [
        ("many", 'spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"'),
        ("0", "spec.replicas: Invalid value: 0: spec.replicas in body should be greater than or equal to 1"),
        ("5", "spec.replicas: Invalid value: at most 4 replicas"),
    ],
)
async def test_a_parent_that_the_api_server_refuses_is_refused_with_its_words_and_the_line(
    tmp_path: Path, replicas: str, words: str
) -> None:
    templates = only_name(tmp_path, "name")
    echoes(tmp_path / "crds", properties=DECLARED, **{"x-kubernetes-validations": RULES[:1]})
    (tmp_path / "web.yaml").write_text(WEB.format(replicas))
    code, out, err = await run("render", str(tmp_path / "web.yaml"), f"--templates={templates}")
    assert (code, out) == (1, "")
    assert f"{tmp_path}/web.yaml:8: Echo web is invalid: {words}\n" in err


async def test_a_field_that_the_api_server_removes_is_a_warning_and_no_template_sees_it(tmp_path: Path) -> None:
    templates = only_name(tmp_path, "spec.hots | default('gone')")
    echoes(tmp_path / "crds", properties=DECLARED)
    (tmp_path / "web.yaml").write_text(WEB.format(1))
    code, out, err = await run("render", str(tmp_path / "web.yaml"), f"--templates={templates}")
    assert (code, yaml.safe_load(out)["data"]) == (0, {"a": "gone"})
    words = "the CRD echoes.example.com declares no spec.hots, and the API server removes it, did you mean spec.host?"
    assert err == f"warning: {tmp_path}/web.yaml:7: {words}\n"


async def test_a_rule_that_is_unknown_offline_is_a_note_and_refuses_nothing(tmp_path: Path) -> None:
    templates = only_name(tmp_path, "name")
    echoes(tmp_path / "crds", properties=DECLARED, **{"x-kubernetes-validations": RULES[1:]})
    (tmp_path / "web.yaml").write_text(WEB.replace("  hots: a\n", "").format(1))
    code, _, err = await run("render", str(tmp_path / "web.yaml"), f"--templates={templates}")
    assert code == 0
    assert err == (
        f"note: {tmp_path}/web.yaml:2: Echo web: not checked offline: spec: the rule 'self.replicas < future()' "
        "(the function future)\n"
    )


async def test_a_parent_has_the_version_that_the_operator_reads(tmp_path: Path) -> None:
    templates = only_name(tmp_path, "object.apiVersion ~ ' ' ~ spec.replicas")
    crds = echoes(tmp_path / "crds", properties=REPLICAS)
    crd = json.loads((crds / "echoes.yaml").read_text())
    (first,) = crd["spec"]["versions"]
    crd["spec"]["versions"] = [first, first | {"name": "v2", "storage": False}]
    (crds / "echoes.yaml").write_text(json.dumps(crd))
    _, out, _ = await run("render", "-", f"--templates={templates}", stdin=EMPTY)
    assert yaml.safe_load(out)["data"] == {"a": "example.com/v2 3"}
    folder(tmp_path, **{"_settings.yaml": "version: v1\n"})
    _, out, _ = await run("render", "-", f"--templates={templates}", stdin=EMPTY)
    assert yaml.safe_load(out)["data"] == {"a": "example.com/v1 3"}
    code, _, err = await run("render", "-", f"--templates={templates}", stdin=EMPTY.replace("/v1", "/v3"))
    assert code == 1
    words = "Echo web: its CRD echoes.example.com doesn't serve version v3; served are v1, v2"
    assert f"standard input:1: {words}" in err


async def test_a_crd_that_cannot_be_used_is_named_with_its_line(tmp_path: Path) -> None:
    templates = only_name(tmp_path, "name")
    (tmp_path / "crds").mkdir()
    text = manifest("echoes.example.com", "CustomResourceDefinition", "apiextensions.k8s.io/v1")
    (tmp_path / "crds" / "echoes.yaml").write_text(f"# A comment.\n{text}")
    code, _, err = await run("render", "-", f"--templates={templates}", stdin=EMPTY)
    assert code == 1
    assert f"{tmp_path}/crds/echoes.yaml:2: a CRD needs spec.group" in err


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ("[1]", "spec.versions[0] must be a mapping, and this is a number"),
        ("[{served: true}]", "a CRD needs spec.group, spec.names.kind and spec.names.plural, and each version a name"),
        (
            "[{name: v1, served: true, schema: {openAPIV3Schema: {properties: {spec: 1}}}}]",
            "spec.versions[0].schema.openAPIV3Schema.properties.spec must be a mapping, and this is a number",
        ),
    ],
)
async def test_a_crd_of_wrong_types_is_named_with_file_line_and_field(
    tmp_path: Path, versions: str, words: str
) -> None:
    templates = only_name(tmp_path, "name")
    (tmp_path / "crds").mkdir()
    text = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: echoes.example.com}\n"
    names = "group: example.com, names: {kind: Echo, plural: echoes}"
    (tmp_path / "crds" / "echoes.yaml").write_text(f"{text}spec: {{{names}, versions: {versions}}}\n")
    code, out, err = await run("render", "-", f"--templates={templates}", stdin=EMPTY)
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith(f"ssa-operator: {tmp_path}/crds/echoes.yaml:")
    assert line.endswith(words)


async def test_a_parent_has_the_metadata_of_a_new_object(tmp_path: Path) -> None:
    words = "metadata.uid ~ ' ' ~ metadata.generation ~ ' ' ~ namespace ~ ' ' ~ (metadata.creationTimestamp is string)"
    code, out, _ = await run("render", "-", f"--templates={only_name(tmp_path, words)}", stdin=EMPTY)
    assert code == 0
    assert yaml.safe_load(out)["data"] == {"a": "00000000-0000-0000-0000-000000000000 1 default true"}


async def test_a_cluster_scoped_object_is_looked_up_without_a_namespace(tmp_path: Path) -> None:
    templates = only_name(tmp_path, "lookup('v1', 'Node', 'one').metadata.uid")
    code, out, _ = await run("render", "-", f"--templates={templates}", stdin=EMPTY)
    assert code == 0
    assert "ConfigMap default/a is waiting for Node one .metadata.uid" in out


async def test_a_table_has_the_template_line_of_each_manifest(tmp_path: Path) -> None:
    texts = {"a": f"{manifest()}\n---\n{manifest('b' * 80)}\n", "b": manifest("r", "ClusterRole", ROLE)}
    templates = folder(tmp_path, **texts, **{"_settings.yaml": "clusterScope: true\n"})
    code, out, err = await run("render", "-", "-o", "table", f"--templates={templates}", stdin=EMPTY)
    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["KIND", "NAMESPACE", "NAME", "TEMPLATE"],
        ["ConfigMap", "default", "a", "echoes.example.com/a.yaml.j2:1"],
        ["ConfigMap", "default", "b" * 80, "echoes.example.com/a.yaml.j2:3"],
        ["ClusterRole", "r", "echoes.example.com/b.yaml.j2:1"],
    ]


async def test_no_manifest_at_all_is_an_empty_list_in_json(tmp_path: Path) -> None:
    templates = folder(tmp_path, a="{% if false %}a{% endif %}")
    code, out, _ = await run("render", "-", "-o", "json", f"--templates={templates}", stdin=EMPTY)
    assert (code, json.loads(out)) == (0, {"apiVersion": "v1", "kind": "List", "items": []})


async def test_a_missing_templates_folder_is_an_error() -> None:
    code, _, err = await run("render", "-", "--templates=nowhere", stdin=EMPTY)
    assert code == 2
    assert "there is no folder nowhere" in err


READS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: reads}
data:
  shared: "{{ lookup('v1', 'ConfigMap', 'shared').data.word }}"
  uid: "{{ child('ConfigMap', 'made').metadata.uid }}"
  count: "{{ lookup_all('v1', 'ConfigMap', labels={'a': 'b'}) | length }}"
"""
MADE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: made}\n"


async def test_child_and_lookup_find_the_objects_of_files(tmp_path: Path) -> None:
    templates = folder(tmp_path, reads=READS, made=MADE)
    _, out, _ = await run("render", "-", f"--templates={templates}", stdin=EMPTY)
    absent = "(there is no such ConfigMap)"
    words = f"ConfigMap default/reads is waiting for ConfigMap default/shared .data.word {absent} and ConfigMap/made"
    assert f"# echoes.example.com/reads.yaml.j2:5: {words}" in out
    (tmp_path / "objects").mkdir()
    (tmp_path / "objects" / "a.yaml").write_text(json.dumps(config_map("shared", word="one")))
    labelled = config_map("any")
    labelled["metadata"]["labels"] = {"a": "b"}
    made = config_map("made")
    made["metadata"]["uid"] = "u-1"
    (tmp_path / "more.yaml").write_text(f"{json.dumps(labelled)}\n---\n{json.dumps(made)}\n")
    objects = (f"--objects={tmp_path / 'objects'}", f"--objects={tmp_path / 'more.yaml'}")
    code, out, err = await run("render", "-", "--strict", *objects, f"--templates={templates}", stdin=EMPTY)
    assert (code, err) == (0, "")
    _, reads = yaml.safe_load_all(out)
    assert reads["data"] == {"shared": "one", "uid": "u-1", "count": "1"}
    code, _, err = await run("render", "-", *objects, *objects, f"--templates={templates}", stdin=EMPTY)
    assert code == 2
    assert "a.yaml:1: ConfigMap default/shared is given twice" in err
    code, _, err = await run("render", "-", "--live", *objects, f"--templates={templates}", stdin=EMPTY)
    assert code == 2
    assert "--live reads the cluster, and --objects replaces it" in err


async def test_an_object_that_another_controller_owns_is_refused_if_it_is_given(tmp_path: Path) -> None:
    templates = folder(tmp_path, made=MADE)
    owned = config_map("made")
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "other", "uid": "u", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]
    (tmp_path / "owned.yaml").write_text(json.dumps(owned))
    arguments = ("render", "-", f"--objects={tmp_path / 'owned.yaml'}", f"--templates={templates}")
    code, _, err = await run(*arguments, stdin=EMPTY)
    assert code == 1
    assert "echoes.example.com/made.yaml.j2:1: ConfigMap default/made is controlled by Deployment other" in err


async def test_files_and_folders_are_rendered_in_order_with_the_line_of_each_document(tmp_path: Path) -> None:
    templates = folder(tmp_path, a=f"{manifest('{{ name }}-a')}\n---\n{manifest('{{ name }}-b')}\n")
    (tmp_path / "parents").mkdir()
    for name in ("two", "one"):
        (tmp_path / "parents" / f"{name}.yaml").write_text(json.dumps(echo(name)))
    (tmp_path / "three.yaml").write_text(json.dumps(echo("three")))
    files = (str(tmp_path / "three.yaml"), str(tmp_path / "parents"))
    code, out, err = await run("render", *files, f"--templates={templates}", "--namespace=team", "--as-applied")
    assert (code, err) == (0, "")
    found = list(yaml.safe_load_all(out))
    names = [f"{parent}-{suffix}" for parent in ("three", "one", "two") for suffix in "ab"]
    assert [body["metadata"]["name"] for body in found] == names
    assert {body["metadata"]["namespace"] for body in found} == {"team"}
    comments = [line for line in out.splitlines() if line.startswith("#")]
    assert comments == ["# echoes.example.com/a.yaml.j2:1", "# echoes.example.com/a.yaml.j2:3"] * 3


class Recording(Client):
    """A client that remembers what it applies to children, without the preconditions of a request."""

    def __init__(self, found: Credentials) -> None:
        super().__init__(found)
        self.applied: dict[str, bytes] = {}

    async def apply(
        self, resource: Resource, namespace: str, name: str, body: bytes, options: ApplyOptions = DEFAULT_APPLY
    ) -> Applied:
        if options.manager == "ssa-operator" and not options.subresource:
            manifest = json.loads(body)
            for precondition in ("uid", "resourceVersion"):
                manifest["metadata"].pop(precondition, None)
            self.applied[f"{resource.kind}/{name}"] = encode(manifest)
        return await super().apply(resource, namespace, name, body, options)


@pytest.mark.cluster
async def test_render_live_prints_the_bytes_that_the_operator_applies(
    cluster: Cluster, desk: Desk, secret_search: SecretSearch, tmp_path: Path
) -> None:
    secret = """\
apiVersion: v1
kind: Secret
metadata: {name: "{{ name }}"}
stringData:
  password: "{{ generated(20) }}"
  odd: "é \\u0085 {{ spec.replicas }}"
"""
    deployment = (ROOT / "templates/echoes.example.com/deployment.yaml.j2").read_text()
    texts = {"secret": secret, "deployment": deployment}
    reads = READS.replace("'made'", "'made-' ~ name").replace("'b'", "namespace")
    templates = folder(tmp_path, **texts, reads=reads, made=MADE.replace("made", "made-{{ name }}"))
    shared = config_map("shared", word="one")
    shared["metadata"]["labels"] = {"a": desk.namespace}
    await desk.apply(shared)
    options = Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)
    async with Client(await administrator(cluster)) as client, operating(client, options):
        await desk.apply_until_ready(echo("web", 2))
    # Another process applies every manifest again.
    async with Recording(await administrator(cluster)) as client, operating(client, options) as running:
        await running.reconciled(1)
    arguments = (f"--templates={templates}", f"--namespace={desk.namespace}", f"--kubeconfig={desk.kubeconfig}")
    assert secret_search.found() == []
    code, out, err = await run(
        "render", "-", "--live", "--as-applied", "--output=json", *arguments, stdin=json.dumps(echo("web", 2))
    )
    secret_search.begin()  # the user asks for the Secrets, too
    assert (code, err) == (0, "")
    printed = {f"{body['kind']}/{body['metadata']['name']}": encode(body) for body in json.loads(out)["items"]}
    assert printed == client.applied
    assert len(printed) == 4


@pytest.mark.exhaustive
async def test_a_parent_that_the_api_server_would_refuse_is_named_with_its_reason(tmp_path: Path) -> None:
    example = ROOT / "examples" / "echo.yaml"
    wrong = tmp_path / "echo.yaml"
    wrong.write_text(example.read_text().replace("replicas: 2", "replicas: many"))
    code, out, err = await run("render", str(wrong))
    assert (code, out) == (1, "")
    reason = 'Invalid value: "string": spec.replicas in body must be of type integer: "string"'
    assert err == f"ssa-operator: {wrong}:7: Echo hello is invalid: spec.replicas: {reason}\n"


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_render_live_of_a_new_parent_writes_nothing_and_refuses_what_the_cluster_refuses(
    desk: Desk, tmp_path: Path
) -> None:
    templates = folder(tmp_path, a=manifest(), b=manifest(kind="Nothing", api="no.example.com/v1"))
    arguments = ("-", "--live", f"--templates={templates}", "-n", desk.namespace, f"--kubeconfig={desk.kubeconfig}")
    code, out, err = await run("render", *arguments, stdin=json.dumps(echo("web")))
    assert code == 1
    assert yaml.safe_load(out)["metadata"]["name"] == "a"
    assert "echoes.example.com/b.yaml.j2:1: Nothing" in err
    assert "the cluster has no kind" in err
    assert await desk.find("echoes.example.com", "web") is None
    code, out, err = await run("render", *arguments, stdin=json.dumps({**echo("web"), "spec": {}}))
    assert (code, out) == (1, "")
    assert "spec.replicas: Required value" in err


@pytest.mark.exhaustive
async def test_render_prints_manifests_without_a_cluster() -> None:
    code, out, err = await run("render", "examples/echo.yaml", KUBECONFIG="nowhere")
    assert (code, err) == (0, "")
    (deployment,) = yaml.safe_load_all(out)
    assert deployment["spec"]["replicas"] == 2
    assert "ownerReferences" not in deployment["metadata"]


async def test_render_as_applied_prints_the_manifests_that_the_operator_applies() -> None:
    code, out, _ = await run("render", "-", "--as-applied", "--output=json", stdin=json.dumps(echo("a", 3)))
    deployment = json.loads(out)
    assert code == 0
    assert deployment["metadata"]["ownerReferences"][0]["uid"] == "00000000-0000-0000-0000-000000000000"
    assert deployment["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "ssa-operator"
    assert deployment["metadata"]["namespace"] == "default"


ORDERED = """\
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: later, annotations: {ssa-operator.dev/after: Job/migrate}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: reads}
data: {uid: "{{ child('Job', 'migrate').metadata.uid }}"}
"""


@pytest.mark.exhaustive
async def test_several_folders_of_templates_and_crds_can_be_given(tmp_path: Path) -> None:
    gadgets = tmp_path / "gadgets"
    gadgets.mkdir()
    (gadgets / "a.yaml.j2").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
    gadget = {"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "g"}}
    both = json.dumps({"apiVersion": "v1", "kind": "List", "items": [echo("web"), gadget]})
    arguments = ("render", "-", "--templates=templates", f"--templates={tmp_path}", "--crds=crds", f"--crds={tmp_path}")
    code, out, err = await run(*arguments, stdin=both)
    assert (code, err) == (0, "")
    assert [body["kind"] for body in yaml.safe_load_all(out)] == ["Deployment", "ConfigMap"]
    code, again, _ = await run("render", "-", stdin=both, SSA_OPERATOR_TEMPLATES=f"templates:{tmp_path}")
    assert (code, again) == (0, out)


async def test_render_names_a_document_that_would_wait_and_prints_its_manifest(tmp_path: Path) -> None:
    templates = folder(tmp_path, a=ORDERED)
    code, out, err = await run("render", "-", f"--templates={templates}", stdin=json.dumps(echo("web")))
    assert (code, err) == (0, "")
    assert [body["metadata"]["name"] for body in yaml.safe_load_all(out)] == ["migrate", "later"]
    comments = [line for line in out.splitlines() if line.startswith("#")]
    said = "ConfigMap default/{} is waiting for Job/migrate to be ready (for Echo web)"
    assert comments == [
        "# echoes.example.com/a.yaml.j2:1",
        "# echoes.example.com/a.yaml.j2:5",
        f"# echoes.example.com/a.yaml.j2:5: {said.format('later')}",
        f"# echoes.example.com/a.yaml.j2:12: {said.format('reads')}",
    ]
    code, _, _ = await run("render", "-", "--strict", f"--templates={templates}", stdin=json.dumps(echo("web")))
    assert code == 1


async def test_render_names_a_cycle_and_shows_everything_else(tmp_path: Path) -> None:
    templates = folder(
        tmp_path,
        a=ORDERED.replace("{name: migrate}", "{name: migrate, annotations: {ssa-operator.dev/after: ConfigMap/later}}"),
    )
    code, out, err = await run("render", "-", f"--templates={templates}", stdin=json.dumps(echo("web")))
    assert code == 1
    assert (
        "a.yaml.j2:1: Job default/migrate is in a dependency cycle: Job/migrate -> ConfigMap/later -> Job/migrate"
        in err
    )
    assert yaml.safe_load(out) is None


@pytest.mark.exhaustive
async def test_render_of_several_objects_as_json_is_a_list() -> None:
    both = {"apiVersion": "v1", "kind": "List", "items": [echo("a"), echo("b")]}
    _, out, _ = await run("render", "-", "--output=json", stdin=json.dumps(both))
    assert [item["metadata"]["name"] for item in json.loads(out)["items"]] == ["a", "b"]


async def test_render_prints_every_valid_manifest_and_names_what_fails(tmp_path: Path) -> None:
    folder = tmp_path / "echoes.example.com"
    folder.mkdir()
    (folder / "a.yaml.j2").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n")
    (folder / "b.yaml.j2").write_text("a:\n  b: {{ spec.nothing }}\n")
    code, out, err = await run("render", "examples/echo.yaml", f"--templates={tmp_path}")
    assert code == 1
    assert yaml.safe_load(out)["kind"] == "ConfigMap"
    assert "echoes.example.com/b.yaml.j2:2: spec.nothing" in err


async def test_render_of_a_cluster_scoped_parent_requires_a_namespace_in_the_template(tmp_path: Path) -> None:
    folder = tmp_path / "namespaces"
    folder.mkdir()
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: NAMESPACE}\n"
    (folder / "good.yaml.j2").write_text(manifest.replace("NAMESPACE", "{{ name }}"))
    (folder / "bad.yaml.j2").write_text(manifest.replace(", namespace: NAMESPACE", ""))
    # The API server removes a namespace of a cluster-scoped object.
    parent = json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "namespace": "x"}})
    code, out, err = await run("render", "-", "--as-applied", f"--templates={tmp_path}", stdin=parent)
    assert code == 1
    assert yaml.safe_load(out)["metadata"]["namespace"] == "team"
    assert "namespaces/bad.yaml.j2:1: ConfigMap a needs metadata.namespace" in err
    assert "(for Namespace team)" in err


async def test_render_names_the_object_that_a_document_would_wait_for(tmp_path: Path) -> None:
    folder = tmp_path / "echoes.example.com"
    folder.mkdir()
    (folder / "a.yaml.j2").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: a}\n")
    data = "data: {ip: \"{{ child('Service', 'a').spec.clusterIP }}\"}\n"
    (folder / "b.yaml.j2").write_text(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: b}}\n{data}")
    code, out, _ = await run("render", "examples/echo.yaml", f"--templates={tmp_path}")
    assert code == 0
    assert yaml.safe_load(out)["kind"] == "Service"
    assert "# echoes.example.com/b.yaml.j2:4: ConfigMap default/b is waiting for Service/a" in out
    code, _, _ = await run("render", "examples/echo.yaml", f"--templates={tmp_path}", "--strict")
    assert code == 1


async def test_render_without_a_folder_names_the_folder() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}}
    code, _, err = await run("render", "-", stdin=json.dumps(secret))
    assert code == 1
    assert "no templates for Secret a: there is no folder secrets" in err


async def test_a_crd_in_place_of_its_object_gets_the_commands_for_crds() -> None:
    code, _, err = await run("render", "crds/echoes.example.com.yaml")
    assert code == 1
    assert err == (
        "ssa-operator: crds/echoes.example.com.yaml:1: echoes.example.com is a CRD, not one of its objects; "
        "write `ssa-operator crds apply` to install it, `ssa-operator check` to check it, and the file of an object "
        "to render\n"
    )


async def test_manifests_that_do_not_fit_into_the_records_of_their_parent_are_named(tmp_path: Path) -> None:
    name = "a" * 240
    text = f"""\
{{% for number in range(900) %}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: "{name}-{{{{ number }}}}", namespace: other}}
{{% endfor %}}
"""
    templates = folder(tmp_path, many=text)
    (templates / "echoes.example.com" / "_settings.yaml").write_text("clusterScope: true\n")
    arguments = ("render", "-", "--templates", str(templates), "--crds=crds")
    code, out, err = await run(*arguments, stdin=json.dumps(echo("a", 1)))
    assert (code, out) == (1, "")
    assert "can't be recorded on its parent before it is created" in err
