"""Downloads the programs that their projects publish, and verifies the published checksums.

Promises:
- A download fails if its published checksum is missing or does not match.
- Without the internet, a download fails within seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import tarfile
from collections.abc import Callable
from pathlib import Path

import aiohttp
from msgspec import Struct

from ssa_operator.devcluster.progress import Progress, ProgressCallback
from ssa_operator.devcluster.versions import ETCD, KUBERNETES, KWOK, UnavailableError

_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=5, sock_connect=5, sock_read=30)
_CHUNK = 1 << 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Platform(Struct, frozen=True):
    """An operating system and an architecture by Go's names, such as `linux` and `amd64`."""

    system: str
    machine: str


class ReleaseURLs(Struct, frozen=True, kw_only=True):
    """The base URLs of the projects' releases."""

    kubernetes: str = "https://dl.k8s.io/release"
    etcd: str = "https://github.com/etcd-io/etcd/releases/download"
    kwok: str = "https://github.com/kubernetes-sigs/kwok/releases/download"
    kwok_digests: str = "https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags"


Checksum = Callable[[str, str], str | None]
"""Finds the SHA-256 of a file in the text of a published checksum file, in hexadecimal. None if it has none."""


class Artifact(Struct, frozen=True, kw_only=True):
    """One published file."""

    program: str

    url: str

    checksum_url: str

    checksum: Checksum

    member: str | None = None
    """The program's path in a tar archive, None if the file is the program."""

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.url.rpartition("/")[2]


def artifacts(sources: ReleaseURLs, platform: Platform) -> tuple[Artifact, ...]:
    """The files to download. Raises UnavailableError for a platform that the projects do not publish for."""
    if platform.system != "linux" or platform.machine not in {"amd64", "arm64"}:
        raise UnavailableError(
            f"Kubernetes publishes its server programs for Linux on amd64 and arm64, not for {platform.system} on "
            f"{platform.machine}"
        )
    suffix = f"{platform.system}-{platform.machine}"
    etcd = f"etcd-v{ETCD}-{suffix}"
    server = f"{sources.kubernetes}/v{KUBERNETES}/bin/{platform.system}/{platform.machine}"
    return (
        Artifact(
            program="etcd",
            url=f"{sources.etcd}/v{ETCD}/{etcd}.tar.gz",
            checksum_url=f"{sources.etcd}/v{ETCD}/SHA256SUMS",
            checksum=_from_list,
            member=f"{etcd}/etcd",
        ),
        Artifact(
            program="kwok",
            url=f"{sources.kwok}/v{KWOK}/kwok-{suffix}",
            checksum_url=f"{sources.kwok_digests}/v{KWOK}",
            checksum=_from_release,
        ),
        *(
            Artifact(
                program=program,
                url=f"{server}/{program}",
                checksum_url=f"{server}/{program}.sha256",
                checksum=_from_single,
            )
            for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        ),
    )


async def download(urls: ReleaseURLs, platform: Platform, folder: Path, report: ProgressCallback) -> None:
    """Downloads the programs into `folder`. Raises UnavailableError."""
    files = artifacts(urls, platform)
    # The user's proxies apply here, because the addresses are not loopback.
    async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
        try:
            for artifact in files:
                await _download(session, artifact, folder, report)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnavailableError(f"{type(error).__name__}: {error}") from error


async def _download(session: aiohttp.ClientSession, artifact: Artifact, folder: Path, report: ProgressCallback) -> None:
    async with session.get(artifact.checksum_url, raise_for_status=True) as response:
        published = artifact.checksum(await response.text(), artifact.name)
    if published is None:
        raise UnavailableError(f"{artifact.checksum_url} has no SHA-256 of {artifact.name}")
    file = folder / f"{artifact.name}.part"
    digest = hashlib.sha256()
    async with session.get(artifact.url, raise_for_status=True) as response:
        total, done = response.content_length or 0, 0
        with file.open("wb") as output:
            async for chunk in response.content.iter_chunked(_CHUNK):
                digest.update(chunk)
                output.write(chunk)
                done += len(chunk)
                report(Progress(message=f"Downloading {artifact.name}", done=done, total=total))
    if digest.hexdigest() != published:
        raise UnavailableError(
            f"{artifact.url} has the SHA-256 {digest.hexdigest()}, but {artifact.checksum_url} has {published}; "
            f"the file was damaged or exchanged on its way"
        )
    program = folder / artifact.program
    if artifact.member is None:
        file.rename(program)
    else:
        await asyncio.to_thread(_extract, file, artifact.member, program)
        file.unlink()
    program.chmod(0o755)


def _extract(archive: Path, member: str, target: Path) -> None:
    with tarfile.open(archive) as opened:
        content = opened.extractfile(member)
        if content is None:
            raise UnavailableError(f"{archive.name} has no file {member}")
        with target.open("wb") as output:
            while chunk := content.read(_CHUNK):
                output.write(chunk)


def _from_single(text: str, name: str) -> str | None:  # noqa: ARG001 - the signature is Checksum's
    return found.group() if (found := _SHA256.fullmatch(text.strip())) else None


def _from_list(text: str, name: str) -> str | None:
    for line in text.splitlines():
        match line.split():
            case [digest, file] if file.removeprefix("*") == name and _SHA256.fullmatch(digest):
                return digest
    return None


def _from_release(text: str, name: str) -> str | None:
    """The digest of a release asset in the answer of GitHub's API.

    https://docs.github.com/en/rest/releases/releases#get-a-release-by-tag-name
    """
    for asset in json.loads(text).get("assets", ()):
        if asset["name"] == name:
            found = _SHA256.fullmatch((asset.get("digest") or "").removeprefix("sha256:"))
            return found.group() if found else None
    return None
