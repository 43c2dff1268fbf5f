"""Roles, databases and extensions of a NeonDatabase: the Job's script, run against a real Postgres, and its Secrets."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.neon.fake_ready_cluster import Stage, container, database, finished, made

pytestmark = pytest.mark.exhaustive

POSTGRES = importlib.util.find_spec("pgserver")
needs_postgres = pytest.mark.skipif(POSTGRES is None, reason="pgserver has no wheel for this Python or platform")

SPEC: dict[str, Any] = {
    "roles": [{"name": "app"}, {"name": "report_user"}],
    "databases": [
        {"name": "shop", "owner": "app", "extensions": ["vector"]},
        {"name": "audit", "owner": "cloud_admin"},
    ],
}
UNPRIVILEGED = 65534
"""The uid as which Postgres runs if the tests run as root, which Postgres refuses."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running Postgres whose superuser is cloud_admin."""

    folder: Path
    """The folder of the socket."""

    @property
    def programs(self) -> Path:
        return self.folder / "pgserver" / "pginstall" / "bin"

    def environment(self, user: str, password: str, name: str) -> dict[str, str]:
        path = f"{self.programs}{os.pathsep}{os.environ['PATH']}"
        login = {"PGUSER": user, "PGPASSWORD": password, "PGDATABASE": name}
        return {**os.environ, **login, "PGHOST": str(self.folder), "PGPORT": "5432", "PATH": path}

    def query(self, text: str, user: str = "cloud_admin", password: str = "admin", name: str = "postgres") -> str:
        """The answer to a query as one of the users, or the error."""
        command = [str(self.programs / "psql"), "--no-psqlrc", "--tuples-only", "--no-align", "--command", text]
        environment = self.environment(user, password, name)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).strip()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    assert POSTGRES is not None
    assert POSTGRES.submodule_search_locations is not None
    (package,) = POSTGRES.submodule_search_locations
    # A short path, because a socket's path has at most 107 characters; open to the user that Postgres runs as.
    with tempfile.TemporaryDirectory(prefix="neon-") as text:
        folder = Path(text)
        # The programs find their libraries in a folder beside the package.
        for name in ("pgserver", "pgserver.libs"):
            if (Path(package).parent / name).exists():
                shutil.copytree(Path(package).parent / name, folder / name)
        (folder / "password").write_text("admin")
        user: dict[str, Any] = {}
        if os.geteuid() == 0:
            folder.chmod(0o755)
            os.chown(folder, UNPRIVILEGED, UNPRIVILEGED)
            user = {"user": UNPRIVILEGED, "group": UNPRIVILEGED, "extra_groups": []}
        server = Server(folder)
        data, tool = folder / "data", server.programs / "pg_ctl"
        # As in a compute: md5 for every client.
        initdb = f"--auth=md5 --username=cloud_admin --pwfile={folder / 'password'} --no-sync"
        settings = f"-c listen_addresses='' -k {folder} -c fsync=off -c password_encryption=md5"
        commands = [
            [str(tool), "initdb", f"--pgdata={data}", f"--options={initdb}"],
            [str(tool), "start", f"--pgdata={data}", "--wait", f"--log={folder / 'log'}", f"--options={settings}"],
        ]
        for command in commands:
            done = subprocess.run(
                command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **user
            )
            assert done.returncode == 0, done.stdout
        try:
            yield server
        finally:
            stop = [str(tool), "stop", f"--pgdata={data}", "--mode=immediate", "--wait"]
            subprocess.run(stop, check=True, capture_output=True, **user)


def data(stage: Stage, component: str) -> dict[str, str]:
    """What a Secret has."""
    found = stage.objects[f"Secret/db-{component}"]["data"]
    return {name: base64.b64decode(text).decode() for name, text in found.items()}


def run_job(server: Server, stage: Stage, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script of the Job as its pod does, with the files and the environment of the pod."""
    (folder / "databases.json").write_text(data(stage, "databases")["databases.json"])
    job = container(stage, "databases")
    script = job["args"][0].replace("/tmp/databases", str(folder / "names"))
    environment = {**server.environment("cloud_admin", "admin", "postgres"), "CONFIG": str(folder / "databases.json")}
    told = {each["name"] for each in job["env"]}
    assert told == {"CONFIG", "PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD"}
    command = [*job["command"], script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.exhaustive
@needs_postgres
def test_the_job_creates_what_is_absent_and_changes_what_is_there(server: Server, tmp_path: Path) -> None:
    stage = made(**SPEC)
    for _ in range(2):  # idempotent
        done = run_job(server, stage, tmp_path)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
    login = data(stage, "role-app")
    owners = "SELECT datname, pg_get_userbyid(datdba) FROM pg_database WHERE datname IN ('shop', 'audit') ORDER BY 1"
    assert server.query(owners) == "audit|cloud_admin\nshop|app"
    assert server.query("SELECT extname FROM pg_extension WHERE extname = 'vector'", name="shop") == "vector"
    assert server.query("SELECT extname FROM pg_extension WHERE extname = 'vector'", name="audit") == ""
    # A role logs in with its Secret, and may write to the database that it owns. It is no superuser.
    as_app = (login["user"], login["password"], login["dbname"])
    assert server.query("CREATE TABLE kept (value text)", *as_app) == "CREATE TABLE"
    assert "permission denied" in server.query("CREATE ROLE another", *as_app)
    # What is there before has its data afterwards, another password and another owner.
    stage.objects["Secret/db-role-app"]["data"]["password"] = base64.b64encode(b"it's \\ another").decode()
    stage.parent = {
        **stage.parent,
        "spec": {**stage.parent["spec"], "databases": [{"name": "shop", "owner": "report_user"}]},
    }
    done = run_job(server, finished(stage), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "password authentication failed" in server.query("SELECT 1", *as_app)
    assert server.query("SELECT count(*) FROM kept", "app", "it's \\ another", "shop") == "0"
    # What is no longer asked for is not dropped.
    assert server.query(owners) == "audit|cloud_admin\nshop|report_user"


@pytest.mark.exhaustive
@needs_postgres
def test_an_extension_that_the_image_lacks_fails_the_job_and_is_named(server: Server, tmp_path: Path) -> None:
    stage = made(databases=[{"name": "other", "owner": "cloud_admin", "extensions": ["not_there"]}])
    done = run_job(server, stage, tmp_path)
    assert done.returncode != 0
    assert 'extension "not_there" is not available' in done.stderr


@needs_postgres
def test_a_name_is_a_name_whatever_it_says(server: Server, tmp_path: Path) -> None:
    """The CRD lets in lower case letters, digits and underscores only; the script depends on nothing of it."""
    hostile = 'x"; DROP DATABASE postgres; --'
    stage = made(roles=[{"name": "app"}], databases=[{"name": "plain", "owner": "app"}])
    secret = stage.objects["Secret/db-databases"]["data"]
    config = json.loads(base64.b64decode(secret["databases.json"]))
    config["roles"].append({"name": hostile, "password": "md5" + 32 * "0"})
    config["databases"].append({"name": "it's", "owner": hostile, "extensions": []})
    secret["databases.json"] = base64.b64encode(json.dumps(config).encode()).decode()
    done = run_job(server, stage, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert server.query("SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'it''s'") == hostile


def test_a_role_s_secret_says_how_to_log_in() -> None:
    stage = made(**SPEC)
    login = data(stage, "role-app")
    password = login.pop("password")
    assert len(password) == 32
    host = "db-compute.n.svc"
    assert login == {
        "type": "postgresql",
        "provider": "neon",
        "username": "app",
        "user": "app",
        "host": host,
        "port": "55433",
        "dbname": "shop",
        "uri": f"postgresql://app:{password}@{host}:55433/shop",
    }
    assert stage.objects["Secret/db-role-app"]["type"] == "servicebinding.io/postgresql"
    # A role that owns no database connects to the one that is always there.
    assert data(stage, "role-report-user")["dbname"] == "postgres"
    assert data(stage, "role-report-user")["password"] != password
    assert stage.status()["roles"] == [
        {"name": "app", "secretName": "db-role-app"},
        {"name": "report_user", "secretName": "db-role-report-user"},
    ]


def test_a_password_comes_from_the_secret_that_is_named() -> None:
    stage = Stage(database(roles=[{"name": "app", "secretRef": {"name": "mine"}}]))
    while stage.step():
        pass
    assert any("waiting for Secret n/mine .data.password" in str(wait) for wait in stage.rendered().waits)
    assert "Job/db-databases" not in stage.objects
    mine = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "mine", "namespace": "n"}}
    stage.others = (*stage.others, {**mine, "data": {"password": base64.b64encode(b"p@ss word").decode()}})
    login = data(finished(stage), "role-app")
    assert login["password"] == "p@ss word"
    assert unquote(urlsplit(login["uri"]).password or "") == "p@ss word"


def test_the_job_starts_after_postgres_and_again_when_something_changes() -> None:
    stage = made(**SPEC)
    waves = {name: number for number, names in enumerate(stage.waves) for name in names}
    assert waves["Job/db-databases"] > waves["Deployment/db-compute"]

    def digest() -> str:
        template = stage.objects["Job/db-databases"]["spec"]["template"]
        return str(template["metadata"]["annotations"]["melenion.com/config"])

    before = digest()
    stage.objects["Secret/db-role-app"]["data"]["password"] = base64.b64encode(b"other").decode()
    finished(stage)
    assert digest() != before
    # Postgres is not restarted for a role.
    compute = made().objects["Deployment/db-compute"]
    assert compute["spec"] == made(**SPEC).objects["Deployment/db-compute"]["spec"]


def test_without_roles_and_databases_there_is_no_job() -> None:
    assert not [name for name in made().objects if "databases" in name or "role" in name]
