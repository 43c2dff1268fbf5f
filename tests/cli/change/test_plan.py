"""`ssa-operator plan`: what changed templates would do to all live parents."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run
from tests.devcluster.audit import own_requests
from tests.operator.harness import (
    DEPLOYMENT,
    ECHOES,
    Desk,
    config_map,
    echo,
    map_template,
    only,
    operating,
    version,
)

pytestmark = pytest.mark.cluster

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ name }}
  annotations: {ssa-operator.dev/recreate: Background}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: IMAGE}]}}}
"""
SECRET = 'apiVersion: v1\nkind: Secret\nmetadata: {name: "{{ name }}"}\nstringData: {word: hidden-content}\n'


async def plan(desk: Desk, templates: Path, *arguments: str) -> tuple[int, str, str]:
    code, out, err = await run(
        "plan", *arguments, f"--templates={templates}", "-n", desk.namespace, f"--kubeconfig={desk.kubeconfig}"
    )
    assert "hidden-content" not in out + err
    return code, out, err


async def planned(desk: Desk, templates: Path, code: int = 0) -> dict[str, Any]:
    """The JSON of a plan that ends with this exit code."""
    ended, out, err = await plan(desk, templates, "--output=json")
    assert (ended, err) == (code, "")
    found: dict[str, Any] = json.loads(out)
    return found


def counts(found: dict[str, Any]) -> dict[str, int]:
    """The counts of a plan that are not 0."""
    names = ("created", "changed", "recreated", "pruned", "unchanged", "waiting", "failed")
    return {name: found[name] for name in names if found[name]}


async def rolled_out(desk: Desk, client: Client, templates: Path, *names: str, kinds: tuple[str, ...]) -> None:
    """Have an operator create the children of some parents; children of these kinds have the parents' names."""
    options = Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        await desk.apply(*(echo(name) for name in names))
        for name in names:
            for kind in kinds:
                await desk.read(kind, name)
            await desk.until(ECHOES, name, lambda body: len(body.get("status", {}).get("resources", ())) == 4)


async def test_a_plan_is_limited_to_the_parents_that_a_label_selector_selects(desk: Desk, templates: Path) -> None:
    only(templates, one=map_template("one", a="'b'"))
    labelled = echo("x")
    labelled["metadata"]["labels"] = {"team": "blue"}
    await desk.apply(labelled, echo("y"))
    _, out, _ = await plan(desk, templates, "--output=json", "--selector=team=blue")
    found = json.loads(out)
    assert found["parents"] == 1
    assert [each["parent"]["name"] for each in found["objects"]] == ["x"]


@pytest.mark.exhaustive
async def test_a_plan_counts_what_changed_templates_would_do_and_writes_nothing(
    cluster: Cluster, desk: Desk, client: Client, templates: Path
) -> None:
    job = JOB.replace("IMAGE", "one")
    only(templates, job=job, secret=SECRET, one=map_template("one", a="'b'"), two=map_template("two", a="'b'"))
    await rolled_out(desk, client, templates, "x", "y", kinds=("jobs.batch", "secrets"))
    found = await planned(desk, templates)
    assert counts(found) == {"unchanged": 8}, found["objects"]
    only(
        templates,
        job=JOB.replace("IMAGE", "two"),
        secret=SECRET.replace("hidden", "other-hidden"),
        one=map_template("one", a="'changed'"),
        three=map_template("three", a="'b'"),
    )
    before = {name: version(await desk.read("configmaps", f"{name}-one")) for name in ("x", "y")}
    seen = len(own_requests(cluster, desk.namespace))
    found = await planned(desk, templates)
    assert counts(found) == {"created": 2, "changed": 4, "recreated": 2, "pruned": 2}
    assert (found["parents"], found["changedParents"]) == (2, 2)
    kinds = {each["kind"]: each for each in found["kinds"]}
    assert (kinds["Job"]["recreated"], kinds["Secret"]["changed"]) == (2, 2)
    assert (kinds["ConfigMap"]["created"], kinds["ConfigMap"]["changed"], kinds["ConfigMap"]["pruned"]) == (2, 2, 2)
    written = [each for each in own_requests(cluster, desk.namespace)[seen:] if each["verb"] == "patch"]
    assert written
    assert all("dryRun=All" in each["requestURI"] for each in written)
    assert {name: version(await desk.read("configmaps", f"{name}-one")) for name in ("x", "y")} == before
    assert await desk.find("configmaps", "x-two") is not None
    assert await desk.find("jobs.batch", "x") is not None


@pytest.mark.slow
async def test_equal_changes_are_one_detail_in_text_and_markdown(desk: Desk, client: Client, templates: Path) -> None:
    only(templates, **{name: map_template(name, a="'b'") for name in ("one", "two", "three", "four")})
    await rolled_out(desk, client, templates, "x", "y", kinds=())
    only(templates, **{name: map_template(name, a="'c'") for name in ("one", "two", "three", "four")})
    (templates / ECHOES / "one.yaml.j2").write_text(map_template("one", a="'b'"))
    code, out, err = await plan(desk, templates)
    assert (code, err) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["KIND", "CHANGED", "UNCHANGED"] in lines
    assert ["ConfigMap", "6", "2"] in lines
    assert f"  data.a: b -> c  {ECHOES}/two.yaml.j2:6" in out
    two = f"change ConfigMap: {desk.namespace}/x-two, {desk.namespace}/y-two"
    assert two in out.splitlines()
    _, comment, _ = await plan(desk, templates, "--output=markdown")
    assert "| ConfigMap | 6 | 2 |" in comment
    assert two in comment
    assert "<details>" in comment


@pytest.mark.exhaustive
async def test_parents_that_fail_wait_or_are_suspended_do_not_hide_the_others(
    desk: Desk, client: Client, templates: Path
) -> None:
    only(templates, **{name: map_template(name, a="'b'") for name in ("one", "two", "three", "four")})
    await rolled_out(desk, client, templates, "bad", "good", "late", "quiet", kinds=())
    await desk.patch("echo", "quiet", metadata={"annotations": {"ssa-operator.dev/suspend": "true"}})
    only(
        templates,
        one=map_template("one", a="'c'"),
        two=map_template("two", a="spec.nothing if name == 'bad' else 'b'"),
        three=map_template("three", a="lookup('v1', 'ConfigMap', 'no').data.a if name == 'late' else 'b'"),
        four=map_template("four", a="'b'"),
    )
    found = await planned(desk, templates, code=1)
    # The two objects of a document that fails or waits are neither changed nor pruned.
    assert counts(found) == {"changed": 3, "unchanged": 12, "waiting": 1, "failed": 1}
    (problem,) = found["problems"]
    assert f"{ECHOES}/two.yaml.j2:6: spec.nothing is missing" in problem
    assert f"(for Echo {desk.namespace}/bad)" in problem
    assert f"Echo {desk.namespace}/quiet is suspended: nothing is applied until it is resumed" in found["notes"]


async def test_a_held_prune_is_a_note_and_counts(desk: Desk, client: Client, templates: Path) -> None:
    only(templates, **{name: map_template(name, a="'b'") for name in ("one", "two", "three", "four")})
    await rolled_out(desk, client, templates, "x", kinds=())
    only(templates, one="{% if false %}a{% endif %}")
    found = await planned(desk, templates)
    assert counts(found) == {"pruned": 4}
    (note,) = found["notes"]
    assert "the prune is held: the templates changed and would now delete 4 children" in note


async def test_what_is_no_longer_rendered_counts_whatever_else_waits(
    desk: Desk, client: Client, templates: Path
) -> None:
    only(templates, **{name: map_template(name, a="'b'") for name in ("one", "two", "three", "four")})
    await rolled_out(desk, client, templates, "x", kinds=())
    waits = map_template("new", a="lookup('v1', 'ConfigMap', 'no').data.a")
    only(templates, one=map_template("one", a="'b'"), two=map_template("two", a="'b'"), new=waits)
    found = await planned(desk, templates)
    assert counts(found) == {"pruned": 2, "unchanged": 2, "waiting": 1}
    pruned = [each["message"] for each in found["objects"] if each["result"] == "pruned"]
    assert len(pruned) == 2
    assert all("is no longer rendered; kept because" in message for message in pruned)


async def test_an_object_that_two_parents_would_create_fails_for_the_second_one(desk: Desk, templates: Path) -> None:
    only(templates, a=map_template("a", a="'b'").replace("{{ name }}", "shared"))
    await desk.apply(echo("one"), echo("two"))
    found = await planned(desk, templates, code=1)
    assert counts(found) == {"created": 1, "failed": 1}
    (failed,) = [each for each in found["objects"] if each["result"] == "failed"]
    assert failed["parent"]["name"] == "two"
    assert f"belongs to Echo {desk.namespace}/one already" in failed["message"]


async def test_templates_that_do_not_load_and_an_unreachable_cluster_are_errors(
    desk: Desk, templates: Path, tmp_path: Path
) -> None:
    (templates / ECHOES / "bad.yaml.j2").write_text("{% if %}")
    code, out, err = await plan(desk, templates)
    assert (code, out) == (2, "")
    assert f"{ECHOES}/bad.yaml.j2:1" in err
    config = desk.kubeconfig.read_text().replace("127.0.0.1:", "127.0.0.1:1")
    (tmp_path / "config").write_text(config)
    code, _, err = await run("plan", f"--kubeconfig={tmp_path / 'config'}")
    assert code == 2
    assert "Traceback" not in err


READS = """\
apiVersion: v1
kind: Secret
metadata: {name: "{{ name }}-copy"}
stringData:
  url: "db://user:{{ lookup('v1', 'Secret', 'db').data.password | b64decode }}@host"
  own: "{{ generated(20) }}"
  sum: "{{ lookup('v1', 'Secret', 'db').data.password | sha256 }}"
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}-words"}
data:
  word: "{{ lookup('v1', 'ConfigMap', 'words').data.word }}"
  sum: "{{ lookup('v1', 'Secret', 'db').data.password | sha256 }}"
  count: "{{ lookup_all('v1', 'ConfigMap', labels={'of': namespace}) | length }}"
---
apiVersion: v1
kind: Service
metadata: {name: "{{ name }}"}
spec:
  selector: {app: web}
  ports: [{port: 80, name: http}, {port: 81, name: more}]
"""


async def saved(desk: Desk, client: Client, templates: Path, file: Path) -> None:
    """A snapshot of two parents, as READS makes them."""
    only(templates, reads=READS, deployment=DEPLOYMENT)
    words = config_map("words", word="one")
    words["metadata"]["labels"] = {"of": desk.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
    secret["stringData"] = {"password": "hidden-content"}
    await desk.apply(words, secret)
    options = Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)
    async with operating(client, options):
        for name in ("x", "y"):
            await desk.apply_until_ready(echo(name))
    code, _, err = await plan(desk, templates, f"--save={file}")
    assert (code, err) == (0, "")


async def against(file: Path, templates: Path, code: int = 0) -> dict[str, Any]:
    """The JSON of a plan against a snapshot, without a cluster."""
    arguments = ("plan", f"--against={file}", f"--templates={templates}", "--output=json")
    ended, out, err = await run(*arguments, KUBECONFIG="nowhere")
    assert (ended, err) == (code, "")
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.exhaustive
async def test_a_snapshot_answers_like_the_cluster_and_holds_no_secret(
    desk: Desk, client: Client, templates: Path, tmp_path: Path
) -> None:
    file = tmp_path / "snapshot.json"
    await saved(desk, client, templates, file)
    text = file.read_text()
    own = (await desk.read("secrets", "x-copy"))["data"]["own"]
    for word in ("hidden-content", base64.b64encode(b"hidden-content").decode(), own, base64.b64decode(own).decode()):
        assert word not in text
    for word in ("db://user", base64.b64encode(b"db://user").decode()):
        assert word not in text
    found = await against(file, templates)
    assert counts(found) == {"unchanged": 8}, found["objects"]
    assert "without the API server's defaults, validation and admission" in found["notes"][0]
    changed = READS.replace("db://user", "db://other").replace("'words').data.word", "'words').data.word ~ '!'")
    only(templates, reads=changed.replace("port: 81", "port: 82"), more=map_template("more", a="'b'"))
    offline, online = await against(file, templates), await planned(desk, templates)
    assert counts(offline) == {"created": 2, "changed": 6, "pruned": 2}
    assert counts(online) == counts(offline)

    def changes(found: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
        objects = found["objects"]
        return sorted((each["name"], each["result"], [field["field"] for field in each["fields"]]) for each in objects)

    # The port's item is new, and only the API server knows its defaults.
    assert [each[:2] for each in changes(offline)] == [each[:2] for each in changes(online)]
    words = [each for each in changes(offline) if each[0] == "x-words"]
    assert words == [("x-words", "configured", ["data.word"])]


QUANTITIES = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ name }}
  annotations: {ssa-operator.dev/ready-when: "true"}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ name }}}
  maxReplicas: 3
  metrics:
    - {type: Pods, pods: {metric: {name: rate}, target: {type: AverageValue, averageValue: "0.5"}}}
    - type: Object
      object: {metric: {name: rate}, describedObject: {kind: Service, name: a}, target: {type: Value, value: "1000"}}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: {{ name }}}
template:
  metadata: {labels: {limits: 1024Mi}}
  spec:
    volumes:
      - {name: scratch, emptyDir: {medium: Memory, sizeLimit: 1024Mi}}
      - name: cache
        ephemeral:
          volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2048Ki}}}}
    overhead: {cpu: "0.25"}
    containers:
      - name: a
        image: a
        env: [{name: CPU, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: "0.001"}}}]
        resources: {limits: {cpu: "0.5", memory: 1024Mi, example.com/thing: "1e1"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: {{ name }}}
spec:
  limits:
    - type: Container
      max: {memory: 2048Mi}
      default: {cpu: "1.5"}
      defaultRequest: {cpu: "0.5"}
      maxLimitRequestRatio: {cpu: "2.0"}
"""


@pytest.mark.exhaustive
async def test_another_spelling_of_a_quantity_in_any_field_is_no_change_against_a_snapshot(
    desk: Desk, client: Client, templates: Path, tmp_path: Path
) -> None:
    file = tmp_path / "snapshot.json"
    only(templates, quantities=QUANTITIES)
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        await desk.apply_until_ready(echo("x"))
    code, _, err = await plan(desk, templates, f"--save={file}")
    assert (code, err) == (0, "")
    assert '"1024Mi"' in file.read_text()  # a label's value is no quantity
    found = await against(file, templates)
    assert counts(found) == {"unchanged": 3}, found["objects"]
    changed = QUANTITIES.replace("sizeLimit: 1024Mi", "sizeLimit: 1023Mi").replace(
        'averageValue: "0.5"', "averageValue: 501m"
    )
    only(templates, quantities=changed.replace("{limits: 1024Mi}", "{limits: 1Gi}"))
    offline, online = await against(file, templates), await planned(desk, templates)
    assert counts(offline) == counts(online) == {"changed": 2, "unchanged": 1}
    assert fields_of(offline) == fields_of(online)


def fields_of(found: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return sorted((each["kind"], sorted(field["field"] for field in each["fields"])) for each in found["objects"])


@pytest.mark.slow
async def test_what_a_snapshot_does_not_hold_is_waited_for(
    desk: Desk, client: Client, templates: Path, tmp_path: Path
) -> None:
    file = tmp_path / "snapshot.json"
    await saved(desk, client, templates, file)
    (templates / ECHOES / "new.yaml.j2").write_text(map_template("new", a="lookup('v1', 'ConfigMap', 'other').data.a"))
    found = await against(file, templates)
    assert counts(found) == {"unchanged": 8, "waiting": 2}
    messages = {each["message"] for each in found["objects"]}
    assert messages == {f"waiting for ConfigMap {desk.namespace}/other to be known: the snapshot does not hold it"}


async def test_a_file_that_is_no_snapshot_is_a_one_line_error(templates: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    empty = {"taken": 0, "salt": "", "kinds": [], "parents": [], "objects": [], "queries": []}
    (tmp_path / "c.json").write_text(json.dumps({"version": 1, **empty}))
    cases = {
        "a.json": "is no snapshot of `ssa-operator plan --save`",
        "b.json": "can't be read",
        "c.json": "is a snapshot of version 1; this program reads version 2",
    }
    for file, words in cases.items():
        code, _, err = await run("plan", f"--against={tmp_path / file}", f"--templates={templates}")
        assert code == 2
        assert f"{file} {words}" in err
        assert len(err.splitlines()) == 1
