"""Downloads, from a loopback server that publishes as the projects do."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from ssa_operator.devcluster import binaries
from ssa_operator.devcluster.binaries import Platform, ReleaseURLs
from ssa_operator.devcluster.components import (
    CONTROLLERS,
    ENVTEST,
    ENVTEST_SHA512,
    ETCD,
    KUBERNETES,
    KWOK,
    PROGRAMS,
    STORAGE,
    UnavailableError,
)
from ssa_operator.devcluster.processes import Progress, ignore_progress

LINUX = Platform("linux", "amd64")


def archive(member: str, content: bytes) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as opened:
        info = tarfile.TarInfo(member)
        info.size = len(content)
        opened.addfile(info, io.BytesIO(content))
    return written.getvalue()


def published() -> dict[str, bytes]:
    """Every path that the projects publish for these versions, with a checksum that fits."""
    etcd_name, kwok_name = f"etcd-v{ETCD}-linux-amd64", "kwok-linux-amd64"
    etcd = archive(f"{etcd_name}/etcd", b"program etcd")
    sums = f"{'0' * 64}  other\n{hashlib.sha256(etcd).hexdigest()}  {etcd_name}.tar.gz\n"
    digest = f"sha256:{hashlib.sha256(b'program kwok').hexdigest()}"
    assets = [{"name": "kwokctl-linux-amd64", "digest": None}, {"name": kwok_name, "digest": digest}]
    paths = {
        f"/etcd/v{ETCD}/{etcd_name}.tar.gz": etcd,
        f"/etcd/v{ETCD}/SHA256SUMS": sums.encode(),
        f"/kwok/v{KWOK}/{kwok_name}": b"program kwok",
        f"/digests/v{KWOK}": json.dumps({"assets": assets}).encode(),
    }
    for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler"):
        content = f"program {name}".encode()
        path = f"/kubernetes/v{KUBERNETES}/bin/linux/amd64/{name}"
        paths |= {path: content, f"{path}.sha256": hashlib.sha256(content).hexdigest().encode()}
    return paths


def envtest_archive() -> bytes:
    """An archive as controller-tools publishes it: tar takes the leading / off /controller-tools/envtest."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w:gz") as opened:
        for name in ("controller-tools/envtest", "controller-tools/envtest/kubectl"):
            opened.addfile(tarfile.TarInfo(name))
        for name in STORAGE:
            info = tarfile.TarInfo(f"controller-tools/envtest/{name}")
            content = f"program {name}".encode()
            info.size, info.mode = len(content), 0o755
            opened.addfile(info, io.BytesIO(content))
    return written.getvalue()


class Mirror:
    """A server of the published files; a test changes `paths`."""

    def __init__(self) -> None:
        self.paths = published()
        self.sources = ReleaseURLs()

    async def answer(self, request: web.Request) -> web.Response:
        if request.path not in self.paths:
            return web.Response(status=404)
        return web.Response(body=self.paths[request.path])


@pytest.fixture
async def mirror() -> AsyncIterator[Mirror]:
    made = Mirror()
    application = web.Application()
    application.router.add_get("/{path:.*}", made.answer)
    async with TestServer(application) as server:
        base = str(server.make_url("")).rstrip("/")
        made.sources = ReleaseURLs(
            kubernetes=f"{base}/kubernetes",
            etcd=f"{base}/etcd",
            kwok=f"{base}/kwok",
            kwok_digests=f"{base}/digests",
            envtest=f"{base}/envtest",
        )
        yield made


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


async def test_all_five_programs_are_downloaded_and_executable(mirror: Mirror, tmp_path: Path) -> None:
    seen: list[Progress] = []
    await binaries.download(mirror.sources, LINUX, tmp_path, PROGRAMS, seen.append)
    assert contents(tmp_path) == {name: f"program {name}".encode() for name in PROGRAMS}
    assert all(os.access(tmp_path / name, os.X_OK) for name in PROGRAMS)
    assert all(progress.done == progress.total for progress in seen)
    assert len(seen) == len(PROGRAMS)


@pytest.mark.parametrize("path", sorted(path for path, content in published().items() if b"program" in content))
async def test_a_program_with_another_checksum_is_refused(mirror: Mirror, tmp_path: Path, path: str) -> None:
    mirror.paths[path] += b"!"
    with pytest.raises(UnavailableError, match=r"damaged or exchanged"):
        await binaries.download(mirror.sources, LINUX, tmp_path, PROGRAMS, ignore_progress)
    program = path.rpartition("/")[2].removesuffix("-linux-amd64")
    assert not (tmp_path / program).exists()


async def test_an_archive_with_another_checksum_is_not_unpacked(mirror: Mirror, tmp_path: Path) -> None:
    name = f"/etcd/v{ETCD}/etcd-v{ETCD}-linux-amd64.tar.gz"
    mirror.paths[name] = archive(f"etcd-v{ETCD}-linux-amd64/etcd", b"another program")
    with pytest.raises(UnavailableError, match=r"damaged or exchanged"):
        await binaries.download(mirror.sources, LINUX, tmp_path, PROGRAMS, ignore_progress)
    assert not (tmp_path / "etcd").exists()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (f"/etcd/v{ETCD}/SHA256SUMS", b"no such line\n"),
        (f"/digests/v{KWOK}", b'{"assets": [{"name": "kwok-linux-amd64", "digest": null}]}'),
        (f"/digests/v{KWOK}", b'{"message": "API rate limit exceeded"}'),
        (f"/kubernetes/v{KUBERNETES}/bin/linux/amd64/kube-scheduler.sha256", b"<html>a login page</html>"),
    ],
)
async def test_a_program_without_a_published_checksum_is_refused(
    mirror: Mirror, tmp_path: Path, path: str, content: bytes
) -> None:
    mirror.paths[path] = content
    with pytest.raises(UnavailableError, match=r"has no SHA-256 of"):
        await binaries.download(mirror.sources, LINUX, tmp_path, PROGRAMS, ignore_progress)


async def test_a_file_that_is_not_published_is_named(mirror: Mirror, tmp_path: Path) -> None:
    del mirror.paths[f"/kwok/v{KWOK}/kwok-linux-amd64"]
    with pytest.raises(UnavailableError, match=r"404.*kwok-linux-amd64"):
        await binaries.download(mirror.sources, LINUX, tmp_path, PROGRAMS, ignore_progress)


async def test_a_refused_connection_makes_the_releases_unavailable(tmp_path: Path, unused_tcp_port: int) -> None:
    nowhere = f"http://127.0.0.1:{unused_tcp_port}"
    sources = ReleaseURLs(kubernetes=nowhere, etcd=nowhere, kwok=nowhere, kwok_digests=nowhere)
    with pytest.raises(UnavailableError, match=r"Cannot connect"):
        await binaries.download(sources, LINUX, tmp_path, PROGRAMS, ignore_progress)


@pytest.mark.parametrize("machine", ["amd64", "arm64"])
async def test_on_macos_etcd_and_kube_apiserver_come_from_the_envtest_archive(
    mirror: Mirror, tmp_path: Path, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = envtest_archive()
    pins = {f"darwin-{machine}": hashlib.sha512(content).hexdigest()}
    monkeypatch.setattr(binaries, "ENVTEST_SHA512", pins)
    mirror.paths[f"/envtest/envtest-v{ENVTEST}/envtest-v{ENVTEST}-darwin-{machine}.tar.gz"] = content
    await binaries.download(mirror.sources, Platform("darwin", machine), tmp_path, STORAGE, ignore_progress)
    assert contents(tmp_path) == {name: f"program {name}".encode() for name in STORAGE}
    assert all(os.access(tmp_path / name, os.X_OK) for name in STORAGE)


async def test_an_envtest_archive_with_another_checksum_than_the_pinned_one_is_not_unpacked(
    mirror: Mirror, tmp_path: Path
) -> None:
    mirror.paths[f"/envtest/envtest-v{ENVTEST}/envtest-v{ENVTEST}-darwin-arm64.tar.gz"] = envtest_archive()
    with pytest.raises(UnavailableError, match=r"SHA512.*but ssa-operator has 9278f9e5.*damaged or exchanged"):
        await binaries.download(mirror.sources, Platform("darwin", "arm64"), tmp_path, STORAGE, ignore_progress)
    assert not any((tmp_path / name).exists() for name in STORAGE)


async def test_on_macos_kwok_is_downloaded_and_the_error_names_what_is_not_published(
    mirror: Mirror, tmp_path: Path
) -> None:
    digest = f"sha256:{hashlib.sha256(b'program kwok').hexdigest()}"
    mirror.paths[f"/kwok/v{KWOK}/kwok-darwin-arm64"] = b"program kwok"
    mirror.paths[f"/digests/v{KWOK}"] = json.dumps(
        {"assets": [{"name": "kwok-darwin-arm64", "digest": digest}]}
    ).encode()
    with pytest.raises(UnavailableError, match=r"^kube-controller-manager, kube-scheduler: not published for darwin"):
        await binaries.download(mirror.sources, Platform("darwin", "arm64"), tmp_path, CONTROLLERS, ignore_progress)
    assert contents(tmp_path) == {"kwok": b"program kwok"}


async def test_an_archive_that_lacks_the_program_is_named(
    mirror: Mirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = archive("readme", b"")
    monkeypatch.setattr(binaries, "ENVTEST_SHA512", {"darwin-arm64": hashlib.sha512(content).hexdigest()})
    mirror.paths[f"/envtest/envtest-v{ENVTEST}/envtest-v{ENVTEST}-darwin-arm64.tar.gz"] = content
    with pytest.raises(UnavailableError, match=r"has no file controller-tools/envtest/etcd"):
        await binaries.download(mirror.sources, Platform("darwin", "arm64"), tmp_path, STORAGE, ignore_progress)


def test_a_checksum_is_pinned_for_each_machine_of_macos() -> None:
    assert set(ENVTEST_SHA512) == {"darwin-amd64", "darwin-arm64"}
    assert all(re.fullmatch("[0-9a-f]{128}", digest) for digest in ENVTEST_SHA512.values())
    assert ENVTEST.rpartition(".")[0] == KUBERNETES.rpartition(".")[0]


async def test_on_another_system_nothing_is_published(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"etcd, .*: not published for freebsd on amd64"):
        await binaries.download(ReleaseURLs(), Platform("freebsd", "amd64"), tmp_path, PROGRAMS, ignore_progress)


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_programs_are_downloaded_from_the_projects_own_hosts_only(system: str) -> None:
    hosts = {artifact.url.split("/")[2] for artifact in binaries.artifacts(ReleaseURLs(), Platform(system, "arm64"))}
    assert hosts <= {"dl.k8s.io", "github.com"}
