"""What the programs of Neon are told, field by field.

Sources: docker-compose/ of neondatabase/neon, and the command lines of pageserver, safekeeper, storage_broker and
compute_ctl there.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.neon.fake_ready_cluster import ID, KEYS, S3, Stage, container, database, made, pods

pytestmark = pytest.mark.exhaustive


@pytest.fixture(scope="module")
def stage() -> Stage:
    return made()


def config(stage: Stage) -> dict[str, Any]:
    """What compute_ctl reads."""
    name = stage.parent["metadata"]["name"]
    read = json.loads(base64.b64decode(stage.objects[f"Secret/{name}-compute"]["data"]["config.json"]))
    assert isinstance(read, dict)
    return read


def pageserver(stage: Stage) -> dict[str, Any]:
    """What the pageserver reads."""
    return tomllib.loads(stage.objects["ConfigMap/db-pageserver"]["data"]["pageserver.toml"])


def words(stage: Stage, component: str) -> list[str]:
    found = container(stage, component)
    return [*found.get("command", ()), *found.get("args", ())]


def environment(stage: Stage, component: str) -> dict[str, Any]:
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container(stage, component)["env"]}


def settings(stage: Stage) -> dict[str, str]:
    listed = config(stage)["spec"]["cluster"]["settings"]
    assert all(set(each) == {"name", "value", "vartype"} for each in listed)
    assert len({each["name"] for each in listed}) == len(listed)
    return {each["name"]: each["value"] for each in listed}


def test_the_pageserver_has_its_identity(stage: Stage) -> None:
    assert tomllib.loads(stage.objects["ConfigMap/db-pageserver"]["data"]["identity.toml"]) == {"id": 1234}


def test_the_pageserver_is_configured_as_upstream_does_it(stage: Stage) -> None:
    assert pageserver(stage) == {
        "broker_endpoint": "http://db-broker:50051",
        "pg_distrib_dir": "/usr/local/",
        "listen_pg_addr": "0.0.0.0:6400",
        "listen_http_addr": "0.0.0.0:9898",
        "remote_storage": {
            "endpoint": "http://db-minio:9000",
            "bucket_name": "neon",
            "bucket_region": "eu-north-1",
            "prefix_in_bucket": "/pageserver",
        },
        "control_plane_api": "http://127.0.0.1:6666",
        "control_plane_emergency_mode": True,
        "virtual_file_io_mode": "buffered",
        # Upstream's default asks for 2 GB, which a small volume never has free.
        "disk_usage_based_eviction": {"max_usage_pct": 80, "min_avail_bytes": 0, "period": "60s"},
    }


def test_the_generation_validator_listens_where_the_pageserver_asks(stage: Stage) -> None:
    (_, validator) = pods(stage)["pageserver"]["spec"]["containers"]
    assert validator["command"] == ["perl", "/etc/neon/validate-generation.pl"]
    told = {each["name"]: each.get("value", each.get("valueFrom")) for each in validator["env"]}
    assert pageserver(stage)["control_plane_api"] == f"http://127.0.0.1:{told['PORT']}"
    assert told["POD_UID"] == {"fieldRef": {"fieldPath": "metadata.uid"}}
    mounts = {each["mountPath"]: each for each in validator["volumeMounts"]}
    # It proves that the pod holds the volume of the tenants by writing to it.
    assert told["HOLDER_FILE"].startswith("/volume/")
    assert mounts["/volume"]["name"] == "data"
    assert mounts["/etc/neon/validate-generation.pl"]["subPath"] in stage.objects["ConfigMap/db-pageserver"]["data"]
    # The images of the database: no other image has to be there.
    assert validator["image"] == container(stage, "pageserver")["image"]


def test_the_compute_stops_postgres_before_compute_ctl_is_signalled(stage: Stage) -> None:
    compute = container(stage, "compute")
    shell, flag, script = compute["lifecycle"]["preStop"]["exec"]["command"]
    assert (shell, flag) == ("/bin/sh", "-c")
    words = script.split()
    assert words[:2] == ["pg_ctl", "stop"]
    told = words_of_compute_ctl(stage)
    assert f"--pgdata={told['--pgdata']}" in words
    assert "--mode=fast" in words
    seconds = int(next(word for word in words if word.startswith("--timeout=")).partition("=")[2])
    assert seconds < pods(stage)["compute"]["spec"]["terminationGracePeriodSeconds"]


def words_of_compute_ctl(stage: Stage) -> dict[str, str]:
    found = words(stage, "compute")[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


def test_the_pageserver_finds_its_files_and_keeps_its_tenants(stage: Stage) -> None:
    assert words(stage, "pageserver") == ["/usr/local/bin/pageserver", "-D", "/data/.neon"]
    mounts = {each["mountPath"]: each for each in container(stage, "pageserver")["volumeMounts"]}
    assert mounts["/data/.neon/tenants"]["name"] == "data"
    assert mounts["/data/.neon"]["name"] == "work"
    for file in ("identity.toml", "pageserver.toml"):
        assert mounts[f"/data/.neon/{file}"]["subPath"] == file
    claims = stage.objects["StatefulSet/db-pageserver"]["spec"]["volumeClaimTemplates"]
    assert [claim["metadata"]["name"] for claim in claims] == ["data"]


@pytest.mark.exhaustive
def test_a_changed_configuration_starts_the_pageserver_again() -> None:
    def annotations(stage: Stage) -> Any:
        return stage.objects["StatefulSet/db-pageserver"]["spec"]["template"]["metadata"]["annotations"]

    assert annotations(made(s3={**S3, "region": "a"})) != annotations(made(s3={**S3, "region": "b"}))


def test_a_safekeeper_knows_its_number_its_name_and_where_to_store(stage: Stage) -> None:
    *command, storage = words(stage, "safekeeper")
    assert command == [
        "safekeeper",
        "--id=$(SAFEKEEPER_ID)",
        "--listen-pg=0.0.0.0:5454",
        "--advertise-pg=$(POD_NAME).db-safekeeper.n.svc:5454",
        "--listen-http=0.0.0.0:7676",
        "--broker-endpoint=http://db-broker:50051",
        "-D",
        "/data",
    ]
    assert tomllib.loads(storage.removeprefix("--").replace("remote-storage=", "remote_storage=", 1)) == {
        "remote_storage": {
            "endpoint": "http://db-minio:9000",
            "bucket_name": "neon",
            "bucket_region": "eu-north-1",
            "prefix_in_bucket": "/safekeeper/",
        }
    }
    told = environment(stage, "safekeeper")
    assert told["POD_NAME"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert told["SAFEKEEPER_ID"] == {"fieldRef": {"fieldPath": "metadata.labels['apps.kubernetes.io/pod-index']"}}
    spec = stage.objects["StatefulSet/db-safekeeper"]["spec"]
    assert (spec["ordinals"], spec["replicas"], spec["serviceName"]) == ({"start": 1}, 3, "db-safekeeper")
    service = stage.objects["Service/db-safekeeper"]["spec"]
    assert (service["clusterIP"], service["publishNotReadyAddresses"]) == ("None", True)


def test_who_stores_in_the_bucket_has_its_keys(stage: Stage) -> None:
    for component in ("bucket", "safekeeper", "pageserver"):
        told = environment(stage, component)
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            assert told[key] == {"secretKeyRef": {"name": "db-minio", "key": key}}
    told = environment(stage, "minio")
    assert told["MINIO_ROOT_USER"]["secretKeyRef"]["key"] == "AWS_ACCESS_KEY_ID"
    assert told["MINIO_ROOT_PASSWORD"]["secretKeyRef"]["key"] == "AWS_SECRET_ACCESS_KEY"
    assert len(base64.b64decode(stage.objects["Secret/db-minio"]["data"]["AWS_SECRET_ACCESS_KEY"])) == 40


def test_minio_and_the_broker_listen_where_they_are_looked_for(stage: Stage) -> None:
    assert words(stage, "minio") == ["server", "/data", "--address", ":9000", "--console-address", ":9001"]
    assert words(stage, "broker") == ["storage_broker", "--listen-addr=0.0.0.0:50051"]


def test_the_bucket_is_made_once_minio_answers(stage: Stage) -> None:
    script = words(stage, "bucket")[-1]
    assert 'until mc alias set minio "$ENDPOINT" "$AWS_ACCESS_KEY_ID" "$AWS_SECRET_ACCESS_KEY"' in script
    assert "mc mb -p minio/neon --region=eu-north-1;" in script
    assert environment(stage, "bucket")["ENDPOINT"] == "http://db-minio:9000"


@pytest.mark.more_cases
@pytest.mark.parametrize("version", [14, "15", 16, "17"])
def test_tenant_and_timeline_are_asked_for_with_the_ids_of_the_database(version: int | str) -> None:
    stage = made(postgres_version=version)
    told = environment(stage, "tenant")
    assert (told["METHOD"], told["URL"]) == ("PUT", f"http://db-pageserver:9898/v1/tenant/{ID}/location_config")
    assert json.loads(told["BODY"]) == {"mode": "AttachedSingle", "generation": 1, "tenant_conf": {}}
    told = environment(stage, "timeline")
    assert (told["METHOD"], told["URL"]) == ("POST", f"http://db-pageserver:9898/v1/tenant/{ID}/timeline/")
    assert json.loads(told["BODY"]) == {"new_timeline_id": ID, "pg_version": int(version)}


def test_ids_that_are_given_are_taken() -> None:
    stage = made(tenant_id="a" * 32, timeline_id="b" * 32)
    spec = config(stage)["spec"]
    assert (spec["tenant_id"], spec["timeline_id"]) == ("a" * 32, "b" * 32)
    assert f"/tenant/{'a' * 32}/" in environment(stage, "timeline")["URL"]
    assert json.loads(environment(stage, "timeline")["BODY"])["new_timeline_id"] == "b" * 32


def test_the_compute_is_started_with_its_configuration(stage: Stage) -> None:
    assert words(stage, "compute") == [
        "/usr/local/bin/compute_ctl",
        *("--pgdata", "/var/db/postgres/compute"),
        *("-C", "postgresql://cloud_admin@localhost:55433/postgres"),
        *("-b", "/usr/local/bin/postgres"),
        *("--compute-id", "db-compute"),
        *("--config", "/etc/neon/config.json"),
    ]
    assert environment(stage, "compute") == {"OTEL_SDK_DISABLED": "true"}
    mounts = {each["mountPath"]: each["name"] for each in container(stage, "compute")["volumeMounts"]}
    # compute_ctl removes its data directory when it starts, which it could not do with the root of a volume.
    assert mounts["/var/db/postgres"] == "data"
    assert "/var/db/postgres/compute" not in mounts
    deployment = stage.objects["Deployment/db-compute"]["spec"]
    assert (deployment["strategy"], deployment["replicas"]) == ({"type": "Recreate"}, 1)
    volumes = {each["name"]: each for each in deployment["template"]["spec"]["volumes"]}
    assert volumes["config"]["secret"]["secretName"] == "db-compute"
    assert volumes["data"]["emptyDir"] == {}


def test_the_compute_has_tenant_timeline_and_storage(stage: Stage) -> None:
    assert set(config(stage)) == {"spec", "compute_ctl_config"}
    spec = config(stage)["spec"]
    assert set(spec) == {
        *("format_version", "suspend_timeout_seconds", "cluster", "delta_operations", "tenant_id", "timeline_id"),
        *("pageserver_connstring", "safekeeper_connstrings"),
    }
    assert set(spec["cluster"]) == {"cluster_id", "name", "roles", "databases", "settings"}
    assert spec["format_version"] == 1.0
    assert spec["suspend_timeout_seconds"] == -1
    assert (spec["tenant_id"], spec["timeline_id"]) == (ID, ID)
    assert spec["pageserver_connstring"] == "host=db-pageserver port=6400"
    assert spec["safekeeper_connstrings"] == [
        f"db-safekeeper-{number}.db-safekeeper.n.svc:5454" for number in (1, 2, 3)
    ]
    assert spec["cluster"]["databases"] == spec["delta_operations"] == []


def test_one_safekeeper_is_enough_where_that_is_asked_for() -> None:
    stage = made(safekeepers={"count": 1})
    assert config(stage)["spec"]["safekeeper_connstrings"] == ["db-safekeeper-1.db-safekeeper.n.svc:5454"]
    assert stage.objects["StatefulSet/db-safekeeper"]["spec"]["replicas"] == 1
    assert "PodDisruptionBudget/db-safekeeper" not in stage.objects
    assert made().objects["PodDisruptionBudget/db-safekeeper"]["spec"]["maxUnavailable"] == 1


def test_postgres_has_the_settings_that_neon_needs(stage: Stage) -> None:
    needed = {
        "port": "55433",
        "listen_addresses": "0.0.0.0",
        "shared_preload_libraries": "neon",
        "synchronous_standby_names": "walproposer",
        "wal_level": "logical",
        "max_connections": "100",
        "fsync": "off",
        "restart_after_crash": "off",
        "password_encryption": "md5",
    }
    assert settings(stage).items() >= needed.items()


def test_compute_ctl_is_told_how_to_write_each_setting(stage: Stage) -> None:
    """It puts what it is told to be a string in quotes, and writes all else as it stands."""
    for each in config(stage)["spec"]["cluster"]["settings"]:
        assert each["vartype"] in ("string", "integer", "bool", "enum")
        bare = {"integer": r"\d+", "bool": "on|off", "enum": "[a-z0-9]+", "string": ".+"}[each["vartype"]]
        assert re.fullmatch(bare, each["value"])


def test_further_libraries_are_loaded_after_neon() -> None:
    stage = made(compute={"preload": ["pg_stat_statements", "pg_cron"]})
    assert settings(stage)["shared_preload_libraries"] == "neon,pg_stat_statements,pg_cron"


def test_settings_of_the_database_reach_postgres() -> None:
    own = {"log_statement": "all", "work_mem": "8MB", "application_name": 'it\'s "q"'}
    stage = made(compute={"max_connections": 7, "shared_buffers": "1GB", "settings": own})
    assert settings(stage).items() >= {**own, "max_connections": "7", "shared_buffers": "1GB"}.items()


@pytest.mark.more_cases
@pytest.mark.parametrize("own", [{"max_wal_senders": "20"}, {"max_replication_flush_lag": "1GB", "a.b": "c"}])
def test_a_setting_of_the_database_takes_the_place_of_the_one_that_it_would_have(own: dict[str, str]) -> None:
    assert settings(made(compute={"settings": own})) == {**settings(made()), **own}


def test_the_hash_is_that_of_the_generated_password() -> None:
    hashes = set()
    for name in ("db", "other"):
        stage = made(name)
        login = {key: base64.b64decode(text).decode() for key, text in credentials(stage)["data"].items()}
        assert len(login["password"]) == 32
        (role,) = config(stage)["spec"]["cluster"]["roles"]
        # What Postgres calls md5 is of the password followed by the role's name; compute_ctl puts "md5" before it.
        expected = hashlib.md5((login["password"] + "cloud_admin").encode(), usedforsecurity=False).hexdigest()
        assert role == {"name": "cloud_admin", "encrypted_password": expected, "options": None}
        hashes.add(expected)
    assert "b093c0d3b281ba6da1eacc608620abd8" not in hashes  # upstream's, of the password cloud_admin


def test_another_password_in_the_secret_becomes_the_compute_s() -> None:
    stage = made()
    before = config(stage)["spec"]["cluster"]["roles"][0]["encrypted_password"]
    started = stage.objects["Deployment/db-compute"]["spec"]["template"]["metadata"]["annotations"]
    credentials(stage)["data"]["password"] = base64.b64encode(b"correct horse battery").decode()
    while stage.step():
        pass
    after = config(stage)["spec"]["cluster"]["roles"][0]["encrypted_password"]
    assert after == hashlib.md5(b"correct horse batterycloud_admin", usedforsecurity=False).hexdigest() != before
    assert base64.b64decode(credentials(stage)["data"]["uri"]).startswith(
        b"postgresql://cloud_admin:correct%20horse%20battery@"
    )
    assert stage.objects["Deployment/db-compute"]["spec"]["template"]["metadata"]["annotations"] != started


def test_a_password_of_any_characters_is_one_part_of_the_uri() -> None:
    stage = made()
    password = "p@ss/w:rd?#%20 &+[é]"
    credentials(stage)["data"]["password"] = base64.b64encode(password.encode()).decode()
    while stage.step():
        pass
    uri = urlsplit(base64.b64decode(credentials(stage)["data"]["uri"]).decode())
    assert (uri.scheme, uri.username, uri.hostname, uri.port) == (
        "postgresql",
        "cloud_admin",
        "db-compute.n.svc",
        55433,
    )
    assert (uri.path, uri.query, uri.fragment) == ("/postgres", "", "")
    assert unquote(uri.password or "") == password


def credentials(stage: Stage) -> dict[str, Any]:
    return stage.objects[f"Secret/{stage.parent['metadata']['name']}-credentials"]


def test_the_secret_says_how_to_log_in(stage: Stage) -> None:
    login = {key: base64.b64decode(text).decode() for key, text in credentials(stage)["data"].items()}
    password = login.pop("password")
    host = "db-compute.n.svc"
    assert login == {
        "type": "postgresql",
        "provider": "neon",
        "username": "cloud_admin",
        "user": "cloud_admin",
        "host": host,
        "port": "55433",
        "dbname": "postgres",
        "uri": f"postgresql://cloud_admin:{password}@{host}:55433/postgres",
    }


def test_no_token_opens_the_compute_s_http_api(stage: Stage) -> None:
    (jwk,) = config(stage)["compute_ctl_config"]["jwks"]["keys"]
    assert (jwk["kty"], jwk["crv"], jwk["alg"], jwk["use"]) == ("OKP", "Ed25519", "EdDSA", "sig")
    key = base64.urlsafe_b64decode(jwk["x"] + "=")
    assert len(key) == 32
    # Nobody made a private key for what is the text of a hash.
    assert key.decode() == hashlib.sha256(stage.parent["metadata"]["uid"].encode()).hexdigest()[:32]


def test_an_external_bucket_takes_the_place_of_minio() -> None:
    external = {**S3, "region": "eu-west-1", "endpoint": "https://s3.example.com"}
    stage = made(s3=external)
    assert not [name for name in stage.objects if name.endswith(("-minio", "-bucket"))]
    storage = pageserver(stage)["remote_storage"]
    assert storage == {
        "endpoint": "https://s3.example.com",
        "bucket_name": "mine",
        "bucket_region": "eu-west-1",
        "prefix_in_bucket": "/pageserver",
    }
    for component in ("safekeeper", "pageserver"):
        told = environment(stage, component)
        assert told["AWS_ACCESS_KEY_ID"] == {"secretKeyRef": {"name": "keys", "key": "AWS_ACCESS_KEY_ID"}}
    assert "endpoint" not in pageserver(made(s3=S3))["remote_storage"]


def marks(stage: Stage) -> list[Any]:
    """What makes the pods that use the bucket start again."""
    sets = (f"StatefulSet/db-{component}" for component in ("safekeeper", "pageserver"))
    return [stage.objects[each]["spec"]["template"]["metadata"]["annotations"]["melenion.com/keys"] for each in sets]


@pytest.mark.parametrize(
    ("change", "again"),
    [
        ({"AWS_ACCESS_KEY_ID": "Yw=="}, True),
        ({"AWS_SECRET_ACCESS_KEY": "Yw=="}, True),
        ({"another": "Yw=="}, False),
    ],
)
def test_other_keys_of_the_bucket_start_those_again_that_use_them(change: dict[str, str], again: bool) -> None:
    stage = made(s3=S3)
    before = marks(stage)
    (keys,) = stage.others
    stage.others = ({**keys, "data": {**keys["data"], **change}},)
    while stage.step():
        pass
    assert [one != other for one, other in zip(before, marks(stage), strict=True)] == [again, again]


@pytest.mark.parametrize("key", ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"])
def test_a_key_that_the_secret_of_the_bucket_has_not_is_named(key: str) -> None:
    kept = {name: value for name, value in KEYS["data"].items() if name != key}
    stage = Stage(database(s3=S3), others=({**KEYS, "data": kept},))
    while stage.step():
        pass
    assert any(f"waiting for Secret n/keys .data.{key}" in str(wait) for wait in stage.rendered().waits)
    assert "StatefulSet/db-safekeeper" not in stage.objects


def test_without_its_keys_a_database_with_an_external_bucket_waits_and_says_so() -> None:
    stage = Stage(made(s3=S3).parent, others=())
    while stage.step():
        pass
    waits = [str(wait) for wait in stage.rendered().waits]
    assert any("waiting for Secret n/keys" in wait for wait in waits)
    assert "StatefulSet/db-safekeeper" not in stage.objects
