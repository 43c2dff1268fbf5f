"""Downloads the programs that their projects publish, and verifies their checksums.

Promises:
- A download fails if its checksum is missing or does not match.
- A program gets its name in the folder when it is complete, checked and executable.
- Without the internet, a download fails within seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import tarfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

import aiohttp
from msgspec import Struct

from ssa_operator.devcluster.processes import Progress, ProgressCallback
from ssa_operator.devcluster.versions import (
    ENVTEST,
    ENVTEST_SHA512,
    ETCD,
    KUBERNETES,
    KWOK,
    STORAGE,
    UnavailableError,
)

_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=5, sock_connect=5, sock_read=30)
_CHUNK = 1 << 20
PART = ".part"
"""The end of the name of a file that is not complete."""
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
    envtest: str = "https://github.com/kubernetes-sigs/controller-tools/releases/download"


FindDigest = Callable[[str, str], str | None]
"""Finds the SHA-256 of a file in the text of a published checksum file, in hexadecimal. None if it has none."""


class PublishedDigest(Struct, frozen=True):
    """A SHA-256 that the project publishes beside the file."""

    url: str
    find: FindDigest


class PinnedDigest(Struct, frozen=True):
    """A SHA-512 that this package knows."""

    sha512: str


class Artifact(Struct, frozen=True, kw_only=True):
    """One published file."""

    url: str

    digest: PublishedDigest | PinnedDigest

    programs: Mapping[str, str | None]
    """The programs in it, each with its path in the tar archive, or None if the file is the program."""

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.url.rpartition("/")[2]


def artifacts(urls: ReleaseURLs, platform: Platform) -> tuple[Artifact, ...]:
    """The files that the projects publish for a platform."""
    if platform.system not in {"linux", "darwin"} or platform.machine not in {"amd64", "arm64"}:
        return ()
    suffix = f"{platform.system}-{platform.machine}"
    kwok = Artifact(
        url=f"{urls.kwok}/v{KWOK}/kwok-{suffix}",
        digest=PublishedDigest(f"{urls.kwok_digests}/v{KWOK}", _from_release),
        programs={"kwok": None},
    )
    if platform.system == "darwin":
        archive = Artifact(
            url=f"{urls.envtest}/envtest-v{ENVTEST}/envtest-v{ENVTEST}-{suffix}.tar.gz",
            digest=PinnedDigest(ENVTEST_SHA512[suffix]),
            programs={program: f"controller-tools/envtest/{program}" for program in STORAGE},
        )
        return (archive, kwok)
    etcd = f"etcd-v{ETCD}-{suffix}"
    server = f"{urls.kubernetes}/v{KUBERNETES}/bin/{platform.system}/{platform.machine}"
    return (
        Artifact(
            url=f"{urls.etcd}/v{ETCD}/{etcd}.tar.gz",
            digest=PublishedDigest(f"{urls.etcd}/v{ETCD}/SHA256SUMS", _from_list),
            programs={"etcd": f"{etcd}/etcd"},
        ),
        *(
            Artifact(
                url=f"{server}/{program}",
                digest=PublishedDigest(f"{server}/{program}.sha256", _from_single),
                programs={program: None},
            )
            for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        ),
        kwok,
    )


async def download(
    urls: ReleaseURLs, platform: Platform, folder: Path, programs: Collection[str], report: ProgressCallback
) -> None:
    """Downloads those programs that are published into `folder`. Raises UnavailableError if one is missing then."""
    files = [each for each in artifacts(urls, platform) if any(program in programs for program in each.programs)]
    # The user's proxies apply here, because the addresses are not loopback.
    async with aiohttp.ClientSession(timeout=_TIMEOUT, trust_env=True) as session:
        try:
            for artifact in files:
                await _download(session, artifact, folder, report)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise UnavailableError(f"{type(error).__name__}: {error}") from error
    published = {program for artifact in files for program in artifact.programs}
    if missing := [program for program in programs if program not in published]:
        raise UnavailableError(f"{', '.join(missing)}: not published for {platform.system} on {platform.machine}")


async def _download(session: aiohttp.ClientSession, artifact: Artifact, folder: Path, report: ProgressCallback) -> None:
    expected, source = await _expected_digest(session, artifact)
    computed = hashlib.sha512() if isinstance(artifact.digest, PinnedDigest) else hashlib.sha256()
    file = folder / f"{artifact.name}{PART}"
    async with session.get(artifact.url, raise_for_status=True) as response:
        total, done = response.content_length or 0, 0
        with file.open("wb") as output:
            async for chunk in response.content.iter_chunked(_CHUNK):
                computed.update(chunk)
                output.write(chunk)
                done += len(chunk)
                report(Progress(message=f"Downloading {artifact.name}", done=done, total=total))
    if computed.hexdigest() != expected:
        raise UnavailableError(
            f"{artifact.url} has the {computed.name.upper()} {computed.hexdigest()}, but {source} has {expected}; "
            f"the file was damaged or exchanged on its way"
        )
    for program, member in artifact.programs.items():
        content = file
        if member is not None:
            content = folder / f"{program}{PART}"
            await asyncio.to_thread(_extract, file, member, content)
        content.chmod(0o755)
        content.rename(folder / program)
    file.unlink(missing_ok=True)


async def _expected_digest(session: aiohttp.ClientSession, artifact: Artifact) -> tuple[str, str]:
    """The digest that the file must have, and where it is from."""
    if isinstance(artifact.digest, PinnedDigest):
        return artifact.digest.sha512, "ssa-operator"
    async with session.get(artifact.digest.url, raise_for_status=True) as response:
        found = artifact.digest.find(await response.text(), artifact.name)
    if found is None:
        raise UnavailableError(f"{artifact.digest.url} has no SHA-256 of {artifact.name}")
    return found, artifact.digest.url


def _extract(archive: Path, member: str, target: Path) -> None:
    with tarfile.open(archive) as opened:
        content = opened.extractfile(member) if member in opened.getnames() else None
        if content is None:
            raise UnavailableError(f"{archive.name} has no file {member}")
        with target.open("wb") as output:
            while chunk := content.read(_CHUNK):
                output.write(chunk)


def _from_single(text: str, name: str) -> str | None:  # noqa: ARG001 - the signature is FindDigest's
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
