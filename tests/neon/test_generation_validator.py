"""The generation validator of the pageserver's pod, run by perl: it answers as Neon's control plane API does.

Source of the shape: ValidateRequest and ValidateResponse in libs/pageserver_api/src/upcall_api.rs of neondatabase/neon.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.neon.fake_ready_cluster import ID, made

SHARD = f"{ID}-0204"
"""A TenantShardId with a shard: number 2 of 4."""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("validator") / "validate-generation.pl"
    file.write_text(made().objects["ConfigMap/db-pageserver"]["data"]["validate-generation.pl"])
    return file


@contextmanager
def validator(script: Path, holder: Path, uid: str = "pod-1") -> Iterator[HTTPConnection]:
    """A running validator of a pod, and a connection to it."""
    with validator_process(script, holder, uid) as (process, connection):
        try:
            yield connection
        finally:
            process.terminate()
    assert process.returncode == 0


@contextmanager
def validator_process(
    script: Path, holder: Path, uid: str = "pod-1", **environment: str
) -> Iterator[tuple[subprocess.Popen[str], HTTPConnection]]:
    """A started validator that the caller ends."""
    perl = shutil.which("perl")
    assert perl is not None
    whole = {**os.environ, "PORT": "0", "HOLDER_FILE": str(holder), "POD_UID": uid, **environment}
    with subprocess.Popen([perl, str(script)], env=whole, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        yield process, HTTPConnection("127.0.0.1", int(line.rpartition(":")[2]), timeout=30)


def ask(connection: HTTPConnection, body: Any, path: str = "/validate", method: str = "POST") -> tuple[int, Any]:
    """The status code and the JSON of an answer."""
    text = body if isinstance(body, str) else json.dumps(body, separators=(",", ":"))
    connection.request(method, path, body=text, headers={"Content-Type": "application/json"})
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "application/json"
    return answer.status, json.loads(answer.read())


def tenants(*pairs: tuple[str, int]) -> dict[str, Any]:
    return {"tenants": [{"id": tenant, "gen": generation} for tenant, generation in pairs]}


def test_every_tenant_that_is_asked_for_is_valid_in_generation_1(script: Path, tmp_path: Path) -> None:
    with validator(script, tmp_path / "holder") as connection:
        assert ask(connection, tenants((ID, 1), (SHARD, 1))) == (
            200,
            {"tenants": [{"id": ID, "valid": True}, {"id": SHARD, "valid": True}]},
        )
        # Another control plane gave out another generation.
        assert ask(connection, tenants((ID, 2))) == (200, {"tenants": [{"id": ID, "valid": False}]})
        assert ask(connection, {"tenants": []}) == (200, {"tenants": []})
        assert ask(connection, json.dumps(tenants((ID, 1)), indent=2)) == (
            200,
            {"tenants": [{"id": ID, "valid": True}]},
        )


def test_nothing_is_valid_after_another_pod_took_the_volume(script: Path, tmp_path: Path) -> None:
    holder = tmp_path / "holder"
    with validator(script, holder, "pod-1") as old, validator(script, holder, "pod-2") as new:
        assert ask(new, tenants((ID, 1)))[1] == {"tenants": [{"id": ID, "valid": True}]}
        assert ask(old, tenants((ID, 1)))[1] == {"tenants": [{"id": ID, "valid": False}]}
        # The question of the old one does not make it the holder again.
        assert ask(new, tenants((ID, 1)))[1] == {"tenants": [{"id": ID, "valid": True}]}


def test_a_restarted_container_of_the_same_pod_still_holds_the_volume(script: Path, tmp_path: Path) -> None:
    holder = tmp_path / "holder"
    for _ in range(2):
        with validator(script, holder) as connection:
            assert ask(connection, tenants((ID, 1)))[1] == {"tenants": [{"id": ID, "valid": True}]}


def test_a_volume_that_can_not_be_read_makes_nothing_valid_and_the_pageserver_asks_again(
    script: Path, tmp_path: Path
) -> None:
    holder = tmp_path / "volume" / "holder"
    holder.parent.mkdir()
    with validator(script, holder) as connection:
        holder.parent.rename(tmp_path / "detached")
        assert ask(connection, tenants((ID, 1)))[0] == 503
        assert ask(connection, "", "/status", "GET")[0] == 503
        (tmp_path / "detached").rename(holder.parent)
        assert ask(connection, tenants((ID, 1)))[1] == {"tenants": [{"id": ID, "valid": True}]}
        assert ask(connection, "", "/status", "GET")[0] == 200


@pytest.mark.parametrize("body", ['{"tenants":[{"id":"x","gen":1}]}', f'{{"tenants":[{{"id":"{ID}"}}]}}'])
def test_a_question_of_another_shape_is_refused(script: Path, tmp_path: Path, body: str) -> None:
    with validator(script, tmp_path / "holder") as connection:
        assert ask(connection, body)[0] == 400
        assert ask(connection, tenants((ID, 1)), "/re-attach")[0] == 404


def test_a_client_that_sends_half_a_request_stops_nobody_else(script: Path, tmp_path: Path) -> None:
    with validator(script, tmp_path / "holder") as connection:
        half = HTTPConnection("127.0.0.1", connection.port, timeout=30)
        half.putrequest("POST", "/validate")
        half.putheader("Content-Length", "100")
        half.endheaders(b"{")
        half.close()
        assert ask(connection, tenants((ID, 1)))[0] == 200


SIGNAL_BEFORE_ACCEPT = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    static int calls;
    if (calls++) raise(SIGTERM);
    return ((int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4"))(fd, address, length, flags);
}
"""
"""A library for LD_PRELOAD: SIGTERM arrives after Perl looked for signals, and before it waits for a connection."""


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="needs LD_PRELOAD and a C compiler")
def test_a_signal_just_before_it_waits_for_a_connection_ends_it(script: Path, tmp_path: Path) -> None:
    source, library = tmp_path / "signal.c", tmp_path / "signal.so"
    source.write_text(SIGNAL_BEFORE_ACCEPT)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    with validator_process(script, tmp_path / "holder", LD_PRELOAD=str(library)) as (process, connection):
        try:
            assert ask(connection, tenants((ID, 1)))[0] == 200
            assert process.wait(timeout=10) == 0
        finally:
            process.kill()


def test_the_script_needs_nothing_that_the_neon_image_lacks(script: Path) -> None:
    """The image has Debian's perl-base, and not the rest of perl."""
    query = shutil.which("dpkg-query")
    if query is None:
        pytest.skip("only Debian tells which files are those of perl-base")
    listed = subprocess.run([query, "--listfiles", "perl-base"], capture_output=True, text=True, check=True).stdout
    base = {os.path.realpath(line) for line in listed.splitlines()}
    modules = [
        line.removeprefix("use ").split()[0].rstrip(";")
        for line in script.read_text().splitlines()
        if line.startswith("use ")
    ]
    assert "IO::Socket::INET" in modules
    program = "".join(f"use {module};" for module in modules) + 'print join "\\n", values %INC'
    loaded = subprocess.run(["/usr/bin/perl", "-e", program], capture_output=True, text=True, check=True).stdout
    assert {file for file in map(os.path.realpath, loaded.splitlines()) if file not in base} == set()
