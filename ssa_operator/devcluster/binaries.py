"""Finds, downloads or builds the five programs of the control plane.

Promises:
- The sources are tried in this order: KUBEBUILDER_ASSETS, the user's cache, the official releases, a build from Go
  modules. A program that one source lacks comes from the next.
- A program in the cache is complete, because it gets its name last. A start that is killed keeps what it has completed,
  and the next start goes on with the rest.
- One process downloads or builds; other processes wait for it.
- If every source fails, one error names each of them with its reason.
- A download fails if its checksum is missing or does not match.
- A program gets its name in the folder when it is complete, checked and executable.
- Without the internet, a download fails within seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import re
import tarfile
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path

import aiohttp
import platformdirs
from msgspec import Struct, field

from ssa_operator.devcluster import build
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
from ssa_operator.devcluster.processes import Progress, ProgressCallback, hold_lock, ignore_progress

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


CACHE_DIRECTORY_VARIABLE = "SSA_OPERATOR_CACHE_DIR"
"""Folder of the programs of the local control plane. Default: ssa-operator in XDG_CACHE_HOME."""

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
"""Folder with programs of a control plane, which are used instead of those of the cache."""

_FIRST_START = (
    "The first start gets etcd and kube-apiserver, and then kube-controller-manager, kube-scheduler and kwok. It "
    "downloads what is published for this machine and compiles the rest, which takes about 11 minutes on two cores for "
    "all five. Later starts take seconds."
)

_GO_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class BinariesError(Exception):
    """Every source of the programs failed. The text names each with its reason."""


class BinaryLocations(Struct, frozen=True, kw_only=True):
    """The folders and addresses of the programs."""

    assets: Path | None
    """KUBEBUILDER_ASSETS."""

    cache: Path
    """The folder of all versions."""

    platform: Platform

    releases: ReleaseURLs = field(default_factory=ReleaseURLs)

    @property
    def directory(self) -> Path:
        """The folder of these versions on this platform."""
        key = f"kubernetes-{KUBERNETES}_etcd-{ETCD}_kwok-{KWOK}_{self.platform.system}-{self.platform.machine}"
        return self.cache / key


def from_environment() -> BinaryLocations:
    """The locations by the environment variables and the platform of this machine."""
    configured = os.environ.get(CACHE_DIRECTORY_VARIABLE)
    root = Path(configured) if configured else platformdirs.user_cache_path("ssa-operator")
    assets = os.environ.get(ASSETS_VARIABLE)
    machine = platform.machine()
    return BinaryLocations(
        assets=Path(assets).absolute() if assets else None,
        cache=root.absolute() / "control-plane",
        platform=Platform(system=platform.system().lower(), machine=_GO_MACHINES.get(machine, machine)),
    )


def available(locations: BinaryLocations, programs: Sequence[str]) -> Path | None:
    """The folder that has these programs already, None if they would have to be downloaded or built."""
    folders = (locations.assets, locations.directory / "bin")
    return next((each for each in folders if each is not None and not _missing(each, programs)), None)


async def acquire(
    locations: BinaryLocations, report: ProgressCallback = ignore_progress, programs: Sequence[str] = PROGRAMS
) -> Path:
    """The folder that has these of the five programs. Raises BinariesError."""
    reasons: list[str] = []
    try:
        # The folder has to have all five, whichever are asked for: a start mixes no versions.
        return _check_complete(_assets(locations), PROGRAMS)
    except UnavailableError as error:
        reasons.append(f"{ASSETS_VARIABLE}: {error}")
        if locations.assets is not None and programs != CONTROLLERS:  # else the start has reported it
            report(Progress(message=f"Not using {ASSETS_VARIABLE}: {error}"))
    folder = locations.directory / "bin"
    try:
        return _check_complete(folder, programs)
    except UnavailableError as error:
        reasons.append(f"the cache: {error}")
    async with hold_lock(_lock(locations), "downloading or building the control plane", report):
        # The process that held the lock before may have installed some of them.
        if missing := _missing(folder, programs):
            folder.mkdir(parents=True, exist_ok=True)
            if set(missing) & set(STORAGE):
                report(Progress(message=_FIRST_START))
            await _install(locations, missing, report, reasons)
            if not _missing(folder, PROGRAMS):
                await _remove_remains(locations, report)
    return folder


def _assets(locations: BinaryLocations) -> Path:
    if locations.assets is None:
        raise UnavailableError("not set")
    return locations.assets


def _check_complete(folder: Path, programs: Sequence[str]) -> Path:
    if not folder.is_dir():
        raise UnavailableError(f"there is no folder {folder}")
    if missing := _missing(folder, programs):
        raise UnavailableError(f"{folder} lacks {', '.join(missing)}")
    return folder


def _missing(folder: Path, programs: Sequence[str]) -> tuple[str, ...]:
    return tuple(program for program in programs if not os.access(folder / program, os.X_OK))


def _lock(locations: BinaryLocations) -> Path:
    return locations.directory.with_name(f"{locations.directory.name}.lock")


async def _install(
    locations: BinaryLocations, programs: Sequence[str], report: ProgressCallback, reasons: list[str]
) -> None:
    """Installs the programs into the cache. `reasons` are why the earlier sources failed."""
    folder = locations.directory / "bin"

    async def download_missing(missing: Sequence[str]) -> None:
        await download(locations.releases, locations.platform, folder, missing, report)

    async def compile_modules(missing: Sequence[str]) -> None:
        await build.build(locations.cache, folder, missing, report)

    sources: tuple[tuple[str, str, Callable[[Sequence[str]], Awaitable[None]]], ...] = (
        ("the official releases", "download", download_missing),
        ("a build from Go modules", "compile", compile_modules),
    )
    for name, verb, fill in sources:
        missing = _missing(folder, programs)
        try:
            await fill(missing)
        except UnavailableError as error:
            report(Progress(message=f"Cannot {verb} {', '.join(_missing(folder, programs))}: {error}"))
            reasons.append(f"{name}: {error}")
        else:
            _check_complete(folder, programs)
            return
    tried = "".join(f"\n- {reason}" for reason in reasons)
    raise BinariesError(
        f"programs of the control plane ({', '.join(_missing(folder, programs))}) could not be downloaded or built. "
        f"Tried:{tried}\n"
        f"Connect to the internet and start again, or put all five ({', '.join(PROGRAMS)}) into one folder and set "
        f"{ASSETS_VARIABLE} to it, or copy {locations.directory} from a machine of the same kind that has it."
    )


async def _remove_remains(locations: BinaryLocations, report: ProgressCallback) -> None:
    """Removes what a complete cache does not need: the build cache, and the parts of interrupted downloads."""
    for part in (locations.directory / "bin").glob(f"*{PART}"):
        part.unlink()
    await build.remove_cache(locations.cache, report)
