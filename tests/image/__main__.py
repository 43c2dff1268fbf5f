"""`python -m tests.image`: builds the image, measures it, and runs it with templates from each source.

It needs podman, and root. A base image can be the tar file of a root file system. The operator runs beside the local
control plane as its pod would: with the permissions of its service account, not as root, without capabilities, with a
read-only root.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start
from tests.image.podman import Podman
from tests.packaging.checkout import ROOT

ALONE, EXAMPLES, OWN, TEMPLATES = (f"localhost/ssa-operator:{tag}" for tag in ("alone", "examples", "own", "templates"))
LARGEST = 60e6
"""Bytes of all compressed layers."""

FOLDER = "echoes.example.com"
TEXTS = {path.name: path.read_text() for path in (ROOT / "templates" / FOLDER).iterdir()}
STARTS = 5
PATIENCE = 60


class Broken(Exception):  # noqa: N818 - a finding, not a mistake of this program
    """The image does not keep a promise."""


def say(text: str) -> None:
    """Print a line at once."""
    print(f"image: {text}", flush=True)


class Installed:
    """deploy/base on a control plane, with a kubeconfig of the operator's service account."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._kubeconfig = cluster.kubeconfig
        self.kubectl("apply", "--server-side", f"--filename={ROOT / 'crds'}")
        self.kubectl("wait", "--for=condition=Established", f"--filename={ROOT / 'crds'}")
        self.kubectl("apply", f"--kustomize={ROOT / 'deploy' / 'base'}")
        content = yaml.safe_load(self.kubectl("config", "view", "--raw", "--flatten"))
        token = self.kubectl("create", "token", "ssa-operator", "--namespace=ssa-operator")
        content["users"][0]["user"] = {"token": token}
        self.operators = folder / "kubeconfig"
        self.operators.write_text(yaml.safe_dump(content))
        self.operators.chmod(0o644)  # the operator's user is another one; the folder is not readable for others
        self.operators.parent.chmod(0o711)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """What kubectl prints, as the administrator."""
        command = [str(Path(sys.executable).parent / "kubectl"), f"--kubeconfig={self._kubeconfig}", *arguments]
        return subprocess.run(command, input=stdin, check=True, text=True, stdout=subprocess.PIPE).stdout

    def echo(self, name: str) -> None:
        """Create an Echo, wait until it is ready, and delete it."""
        body = {"apiVersion": "example.com/v1", "kind": "Echo", "metadata": {"name": name}, "spec": {"replicas": 1}}
        self.kubectl("apply", "--filename=-", stdin=json.dumps(body))
        self.kubectl("wait", "--for=condition=Ready", f"--timeout={PATIENCE}s", f"echo/{name}")


def config_map(folder: Path, generation: int, texts: Mapping[str, str]) -> None:
    """A folder as the kubelet writes a ConfigMap's volume: links into `..data`, which is replaced at once."""
    data = folder / f"..{generation}"
    data.mkdir(parents=True)
    for name, text in texts.items():
        (data / name).write_text(text)
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"..data/{name}")
    new = folder / "..data_tmp"
    new.symlink_to(data.name)
    new.rename(folder / "..data")


def answer(url: str) -> int:
    """The status of a GET, 0 without an answer."""
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@contextmanager
def operating(podman: Podman, installed: Installed, image: str, *volumes: str) -> Iterator[float]:
    """A running operator; the seconds from the start of its container until it was ready."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {"KUBECONFIG": "/kubeconfig", "SSA_OPERATOR_LISTEN": f"127.0.0.1:{port}"}
    mounted = [f"--volume={installed.operators}:/kubeconfig:ro", *volumes]
    began = time.monotonic()
    with podman.container(image, environment=environment, volumes=mounted) as container:
        while answer(f"http://127.0.0.1:{port}/readyz") != 200:
            if time.monotonic() - began > PATIENCE:
                raise Broken(f"{image} was not ready within {PATIENCE} seconds")
            time.sleep(0.005)  # nothing reports when the port of a container answers
        seconds = time.monotonic() - began
        check_process(json.loads(podman.run("inspect", container))[0])
        yield seconds


def check_process(inspected: Mapping[str, Any]) -> None:
    """Check the user of a container's process."""
    status = Path(f"/proc/{inspected['State']['Pid']}/status").read_text()
    ids = {line.partition(":")[0]: line.split()[1:] for line in status.splitlines()}
    if ids["Uid"] != ["65532"] * 4 or ids["Gid"] != ["65532"] * 4 or int(ids["CapEff"][0], 16):
        raise Broken(
            f"the process has the user {ids['Uid']}, the group {ids['Gid']} and the capabilities {ids['CapEff']}"
        )


def build(podman: Podman, base: str, arguments: Sequence[str], folder: Path) -> None:
    """Build the operator's images, a user's own image, and an image that has only templates."""
    if Path(base).is_file():
        podman.run("import", "--quiet", base, "localhost/base:image")
        base = "localhost/base:image"
    for tag, target in ((ALONE, ()), (EXAMPLES, ("--target=examples",))):
        podman.build(tag, ROOT, f"--build-arg=BASE={base}", *target, *arguments)
    for tag, text in (
        (OWN, f"FROM {ALONE}\nCOPY templates templates\n"),
        (TEMPLATES, "FROM scratch\nCOPY templates /\n"),
    ):
        context = folder / tag.partition(":")[2]
        copied = context / "templates" / FOLDER
        copied.mkdir(parents=True)
        for name, content in TEXTS.items():
            (copied / name).write_text(content)
        (context / "Dockerfile").write_text(text)
        podman.build(tag, context)


def check_content(podman: Podman) -> None:
    """Check the size of the image, and that nothing but the operator can be run in it."""
    for tag in (ALONE, EXAMPLES):
        layers = podman.layers(tag)
        say(f"{tag}: {sum(layers) / 1e6:.1f} MB compressed in {len(layers)} layers")
        if sum(layers) > LARGEST:
            raise Broken(f"{tag} is larger than {LARGEST / 1e6:.0f} MB")
    files = podman.files(ALONE)
    names = {path.rpartition("/")[2] for path in files}
    if found := names & {"sh", "bash", "dash", "busybox", "apt", "dpkg", "pip", "pip3", "apk", "wget", "curl"}:
        raise Broken(f"{ALONE} has {', '.join(sorted(found))}")
    if found := {path for path in files if path.startswith(("app/templates/", "app/crds/"))}:
        raise Broken(f"{ALONE} has {', '.join(sorted(found))}")
    say(f"{ALONE}: {len(files)} files, no shell, no package manager, no templates")


def check_sources(podman: Podman, installed: Installed, folder: Path) -> None:
    """Reconcile an Echo with templates from each source."""
    mounted = folder / "config-map"
    config_map(mounted, 1, TEXTS)
    sources = {
        "templates of the image": (EXAMPLES, ()),
        "an own image FROM ours": (OWN, ()),
        "a ConfigMap": (ALONE, (f"--volume={mounted}:/app/templates/{FOLDER}:ro",)),
        "an image volume": (ALONE, (f"--mount=type=image,source={TEMPLATES},destination=/app/templates",)),
    }
    for number, (name, (image, volumes)) in enumerate(sources.items()):
        with operating(podman, installed, image, *volumes):
            installed.echo(f"echo-{number}")
            if name == "a ConfigMap":
                change_config_map(installed, mounted, f"echo-{number}")
        installed.kubectl("delete", "echoes", "--all")
        say(f"{name}: an Echo became ready")


def change_config_map(installed: Installed, mounted: Path, name: str) -> None:
    """Check that the operator renders a changed ConfigMap without a restart."""
    text = TEXTS["deployment.yaml.j2"]
    changed = text.replace("metadata:\n", "metadata:\n  annotations: {changed: 'yes'}\n", 1)
    config_map(mounted, 2, {**TEXTS, "deployment.yaml.j2": changed})
    annotation = "--for=jsonpath={.metadata.annotations.changed}=yes"
    installed.kubectl("wait", annotation, f"--timeout={PATIENCE}s", f"deployment/{name}")
    say("a ConfigMap: the operator renders a changed one without a restart")


def measure_start(podman: Podman, installed: Installed) -> None:
    """Print how long a container takes until it is ready."""
    seconds = []
    for _ in range(STARTS):
        with operating(podman, installed, EXAMPLES) as taken:
            seconds.append(taken)
    spread = f"{min(seconds):.2f} to {max(seconds):.2f} s"
    load = os.getloadavg()[0]
    say(f"{EXAMPLES}: ready after {statistics.median(seconds):.2f} s ({spread}, {STARTS} starts, load {load:.1f})")


async def check(podman: Podman, folder: Path) -> None:
    """Run the images on a control plane."""
    cluster = await start(ClusterSpec(name="image"))
    try:
        installed = Installed(cluster, folder)
        await asyncio.to_thread(check_sources, podman, installed, folder)
        await asyncio.to_thread(measure_start, podman, installed)
    finally:
        await cluster.stop()


def main() -> None:
    """Exits with 1 if the image breaks a promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.image", description=__doc__)
    parser.add_argument("--base", default="python:3.13-slim", help="the base image: a name, or the tar file of a root")
    parser.add_argument(
        "--storage", default="overlay", help="podman's storage driver; vfs works everywhere and is slow"
    )
    parser.add_argument("build", nargs="*", help="more arguments for podman build, such as a volume with certificates")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ssa-operator-image-") as temporary:
        folder = Path(temporary)
        os.environ["SSA_OPERATOR_STATE_DIR"] = f"{folder}/state"
        try:
            podman = Podman(folder / "podman", arguments.storage)
            try:
                build(podman, arguments.base, arguments.build, folder)
                check_content(podman)
                asyncio.run(check(podman, folder))
            finally:
                podman.close()
        except FileNotFoundError as error:
            sys.exit(f"image: there is no {error}; install it")
        except Broken as error:
            sys.exit(f"image: {error}")


if __name__ == "__main__":
    main()
