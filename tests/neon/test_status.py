"""What a NeonDatabase says of itself."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.neon.fake_ready_cluster import ID, S3, Stage, database, made


def test_a_database_that_is_ready_says_where_it_is() -> None:
    stage = made()
    status = stage.status()
    components = status.pop("components")
    assert status == {
        "phase": "Ready",
        "postgresVersion": "17",
        "tenantId": ID,
        "timelineId": ID,
        "connectionString": "postgresql://cloud_admin@db-compute.n.svc:55433/postgres",
        "secretName": "db-credentials",
        "storage": {
            "pageserver": "db-pageserver",
            "safekeepers": [f"db-safekeeper-{number}.db-safekeeper.n.svc:5454" for number in (1, 2, 3)],
        },
        "endpoints": {
            "postgres": "db-compute.n.svc:55433",
            "pageserver": "http://db-pageserver.n.svc:9898",
            "broker": "http://db-broker.n.svc:50051",
            "s3": "http://db-minio.n.svc:9000",
        },
    }
    assert {name: each["ready"] for name, each in components.items()} == dict.fromkeys(
        ("minio", "bucket", "broker", "safekeeper", "pageserver", "tenant", "timeline", "compute"), True
    )
    assert components["compute"]["image"] == "ghcr.io/neondatabase/compute-node-v17:release-compute-9073"


def test_no_password_is_in_a_status() -> None:
    stage = made()
    said = json.dumps(stage.status())
    for name, body in stage.objects.items():
        for field, encoded in body["data"].items() if name.startswith("Secret/") else ():
            if field in ("password", "AWS_SECRET_ACCESS_KEY", "uri", "config.json"):
                assert base64.b64decode(encoded).decode() not in said


def test_what_is_not_known_yet_is_left_out() -> None:
    assert Stage(database()).status() == {
        "phase": "CreatingStorage",
        "postgresVersion": "17",
        "tenantId": ID,
        "timelineId": ID,
        "components": {
            name: {"ready": False}
            for name in ("minio", "bucket", "broker", "safekeeper", "pageserver", "tenant", "timeline", "compute")
        },
    }


@pytest.mark.exhaustive
def test_an_external_bucket_is_no_component() -> None:
    status = made(s3={**S3, "endpoint": "https://s3.example.com"}).status()
    assert status["phase"] == "Ready"
    assert status["endpoints"]["s3"] == "https://s3.example.com"
    assert not {"minio", "bucket"} & set(status["components"])
    assert "s3" not in made(s3=S3).status()["endpoints"]


def test_the_phases_follow_what_is_made() -> None:
    stage = Stage(database())
    phases = [stage.status()["phase"]]
    while stage.step():
        phases.append(stage.status()["phase"])
    names = [phase for phase, before in zip(phases, ["", *phases[:-1]], strict=True) if phase != before]
    assert names == ["CreatingStorage", "StartingNeon", "CreatingTimeline", "StartingCompute", "Ready"]


@pytest.mark.parametrize(
    ("broken", "phase"),
    [
        ("Deployment/db-compute", "StartingCompute"),
        ("StatefulSet/db-pageserver", "Degraded"),
        ("StatefulSet/db-minio", "Degraded"),
        ("Job/db-timeline", "Degraded"),
    ],
)
def test_a_database_that_loses_something_says_what(broken: str, phase: str) -> None:
    stage = made()
    del stage.objects[broken]["status"]
    status = stage.status()
    assert status["phase"] == phase
    lost = [name for name, component in status["components"].items() if not component["ready"]]
    assert lost == [broken.partition("-")[2]]


def test_a_database_that_is_being_deleted_says_so() -> None:
    stage = made()
    parent: dict[str, Any] = {**stage.parent}
    parent["metadata"] = {**parent["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    stage.parent = parent
    assert stage.status()["phase"] == "Deleting"
