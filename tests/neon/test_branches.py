"""The manifests and the status of a NeonBranch, and what a NeonDatabase says of its branches."""

from __future__ import annotations

import base64
import json
from typing import Any

from tests.neon.fake_ready_cluster import (
    BRANCH_ID,
    ID,
    ROOT,
    Stage,
    branch,
    container,
    database,
    finished,
    key,
    made,
    made_branch,
    pods,
)


def environment(stage: Stage, component: str) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(stage, component)["env"]}


def spec_of_compute(stage: Stage) -> dict[str, Any]:
    name = stage.parent["metadata"]["name"]
    config = json.loads(base64.b64decode(stage.objects[f"Secret/{name}-branch-compute"]["data"]["config.json"]))
    found = config["spec"]
    assert isinstance(found, dict)
    return found


def as_other(stage: Stage) -> dict[str, Any]:
    return {**stage.parent, "status": stage.status()}


def test_a_branch_is_a_timeline_of_its_database_and_a_postgres_on_it() -> None:
    stage = made_branch()
    assert [names for names in stage.waves if any("Job" in name or "Deployment" in name for name in names)] == [
        {"Job/dev-branch-timeline", *stage.waves[0]},
        {"Deployment/dev-branch-compute"},
    ]
    told = environment(stage, "timeline")
    assert (told["METHOD"], told["URL"]) == ("POST", f"http://db-pageserver:9898/v1/tenant/{ID}/timeline/")
    # TimelineCreateRequest, mode Branch, in libs/pageserver_api/src/models.rs of neondatabase/neon.
    assert json.loads(told["BODY"]) == {"new_timeline_id": BRANCH_ID, "ancestor_timeline_id": ID}
    found, of_database = (
        spec_of_compute(stage),
        json.loads(base64.b64decode(made().objects["Secret/db-compute"]["data"]["config.json"]))["spec"],
    )
    assert (found["tenant_id"], found["timeline_id"]) == (ID, BRANCH_ID)
    for field in ("pageserver_connstring", "safekeeper_connstrings"):
        assert found[field] == of_database[field]
    # A branch inherits the subscriptions of its ancestor, and must not take from them what the ancestor needs.
    assert found["drop_subscriptions_before_start"] is True
    assert "drop_subscriptions_before_start" not in of_database


def test_a_branch_may_begin_at_a_position_and_at_another_branch() -> None:
    ancestor = {**branch("one"), "status": {"timelineId": "c" * 32}}
    stage = made_branch("two", ancestor, ancestor="one", lsn="0/16B3748")
    assert json.loads(environment(stage, "timeline")["BODY"]) == {
        "new_timeline_id": BRANCH_ID,
        "ancestor_timeline_id": "c" * 32,
        "ancestor_start_lsn": "0/16B3748",
    }
    assert stage.status()["ancestorTimelineId"] == "c" * 32


def test_a_branch_waits_until_the_timeline_of_its_database_exists() -> None:
    alone = Stage(branch(), others=())
    finished_waits = waits(alone)
    assert any("waiting for NeonDatabase n/db" in wait for wait in finished_waits)
    assert alone.status()["phase"] == "WaitingForDatabase"
    begun = Stage(branch(), others=(as_other(Stage(database())),))
    assert any("waiting for NeonDatabase n/db .status.storage" in wait for wait in waits(begun))
    assert "Job/dev-branch-timeline" not in begun.objects
    # Later the Jobs of the database run again for a new image; the branch doesn't wait for them.
    parent = made()
    ready = as_other(parent)
    del parent.objects["Job/db-timeline"]["status"]
    parent.parent = ready
    assert finished(Stage(branch(), others=(as_other(parent),))).objects


def test_a_branch_waits_until_the_timeline_of_its_ancestor_exists() -> None:
    ancestor = {**branch("one"), "status": {"phase": "CreatingTimeline"}}
    stage = Stage(branch("two", ancestor="one"), others=(as_other(made()), ancestor))
    assert any("waiting for NeonBranch n/one .status.timelineId" in wait for wait in waits(stage))


def waits(stage: Stage) -> list[str]:
    while stage.step():
        pass
    return [str(wait) for wait in stage.rendered().waits]


def test_a_branch_has_the_images_of_its_database_or_its_own() -> None:
    of = made(neon_image_ref="registry.test/neon:1", compute_image_ref="registry.test/compute:1")
    stage = made_branch(of=of)
    assert container(stage, "timeline")["image"] == "registry.test/neon:1"
    assert container(stage, "compute")["image"] == "registry.test/compute:1"
    own = made_branch(of=of, compute_image_ref="registry.test/compute:2")
    assert container(own, "compute")["image"] == "registry.test/compute:2"
    assert (
        container(made_branch(of=made(postgres_version=15)), "compute")["image"]
        == container(made(postgres_version=15), "compute")["image"]
    )


def test_a_branch_has_nothing_in_common_with_a_database_or_a_branch_of_another_name() -> None:
    same = made_branch("db")
    others = [made("db"), made_branch("dev")]
    for other in others:
        assert not set(same.objects) & set(other.objects)
    selectors = [pod["metadata"]["labels"] for stage in (same, *others) for pod in pods(stage).values()]
    for stage in (same, *others):
        for body in stage.objects.values():
            if body["kind"] == "Service":
                selected = [labels for labels in selectors if body["spec"]["selector"].items() <= labels.items()]
                assert len(selected) == 1


def test_a_branch_has_its_own_password() -> None:
    stage = made_branch()
    login = {
        name: base64.b64decode(text).decode()
        for name, text in stage.objects["Secret/dev-branch-credentials"]["data"].items()
    }
    assert login["host"] == "dev-branch-compute.n.svc"
    assert login["uri"] == f"postgresql://cloud_admin:{login['password']}@dev-branch-compute.n.svc:55433/postgres"
    assert len(login["password"]) == 32
    assert stage.status()["secretName"] == "dev-branch-credentials"
    shown = json.dumps([body for name, body in stage.objects.items() if not name.startswith("Secret/")])
    for secret in (login["password"], spec_of_compute(stage)["cluster"]["roles"][0]["encrypted_password"]):
        assert secret not in shown
        assert secret not in json.dumps(stage.status())


def test_the_pods_of_a_branch_reach_the_storage_of_their_database_and_no_other() -> None:
    stage, policies = made_branch(), made().objects
    labels = {component: pod["metadata"]["labels"] for component, pod in pods(stage).items()}
    assert set(labels) == {"timeline", "compute", "deletion"}

    def allowed(component: str, port: int, caller: dict[str, str]) -> bool:
        return any(
            port in [each["port"] for each in rule["ports"]]
            and any(peer["podSelector"]["matchLabels"].items() <= caller.items() for peer in rule["from"])
            for rule in policies[f"NetworkPolicy/db-{component}"]["spec"]["ingress"]
        )

    calls = {
        *(("compute", "pageserver", 6400), ("compute", "safekeeper", 5454)),
        *(("timeline", "pageserver", 9898), ("deletion", "pageserver", 9898), ("deletion", "safekeeper", 7676)),
    }
    ports = {"minio": (9000,), "broker": (50051,), "safekeeper": (5454, 7676), "pageserver": (6400, 9898)}
    for caller, found in labels.items():
        for component, numbers in ports.items():
            for port in numbers:
                assert allowed(component, port, found) == ((caller, component, port) in calls)
                assert not allowed(component, port, {**found, "melenion.com/database": "another"})
    own = stage.objects["NetworkPolicy/dev-branch-compute"]["spec"]
    assert own["ingress"] == [{"ports": [{"port": 55433, "protocol": "TCP"}]}]
    assert own["podSelector"]["matchLabels"].items() <= labels["compute"].items()


def test_a_branch_says_where_it_is() -> None:
    stage = made_branch()
    status = stage.status()
    components = status.pop("components")
    assert status == {
        "phase": "Ready",
        "postgresVersion": "17",
        "timelineId": BRANCH_ID,
        "ancestorTimelineId": ID,
        "connectionString": "postgresql://cloud_admin@dev-branch-compute.n.svc:55433/postgres",
        "secretName": "dev-branch-credentials",
        "endpoints": {"postgres": "dev-branch-compute.n.svc:55433"},
    }
    assert {name: each["ready"] for name, each in components.items()} == {"timeline": True, "compute": True}


def test_the_phases_of_a_branch_follow_what_it_waits_for() -> None:
    stage = Stage(branch(), others=(as_other(made()),))
    phases = [stage.status()["phase"]]
    while stage.step():
        phases.append(stage.status()["phase"])
    assert list(dict.fromkeys(phases)) == ["WaitingForDatabase", "StartingCompute", "Ready"]
    del stage.objects["Job/dev-branch-timeline"]["status"]
    assert stage.status()["phase"] == "Degraded"


def test_without_its_database_a_branch_has_nothing_to_delete() -> None:
    gone = Stage(branch(), others=())
    assert not [each for each in gone.rendered().documents if key(each.body) == "Job/dev-branch-deletion"]


def test_a_database_names_its_branches_and_keeps_itself_for_them() -> None:
    stage = made()
    assert "branches" not in stage.status()
    assert "ConfigMap/db-branches" not in stage.objects
    other = {**branch("far"), "spec": {"database": "another"}}
    stage.others = (*stage.others, branch("dev"), branch("two"), other)
    assert stage.status()["branches"] == ["dev", "two"]
    hook = finished(stage).objects["ConfigMap/db-branches"]
    assert hook["metadata"]["annotations"] == {"ssa-operator.dev/on": "finalize"}
    stage.parent["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    waiting = [str(wait) for wait in stage.rendered().waits]
    assert any("NeonBranch n/dev" in wait and "NeonBranch n/two" in wait for wait in waiting)
    assert stage.status()["message"] == "The database is kept until its branches are deleted: dev, two"
    stage.others = (other,)
    assert stage.rendered().waits == ()
    assert "ConfigMap/db-branches" not in {key(each.body) for each in stage.rendered().documents}


def test_the_example_names_the_example_database() -> None:
    found = (ROOT / "examples" / "neonbranch.yaml").read_text()
    assert "database: neon\n" in found
