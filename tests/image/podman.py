"""Builds and runs images with podman, with nothing of the machine's own images.

Promises:
- Images, containers and mounts are in one folder, which can be removed afterwards.
- A container runs as Pod Security `restricted` demands: not as root, without capabilities, and with a read-only root.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

RESTRICTED = ("--read-only", "--tmpfs=/tmp", "--cap-drop=all", "--security-opt=no-new-privileges", "--network=host")


class Podman:
    """podman with a folder of its own. Raises CalledProcessError if a command fails."""

    def __init__(self, folder: Path, storage: str) -> None:
        runtime = shutil.which("crun") or shutil.which("runc")
        if shutil.which("podman") is None or runtime is None:
            raise FileNotFoundError("podman with crun or runc")
        folder.mkdir(parents=True, exist_ok=True)
        configuration = folder / "containers.conf"
        configuration.write_text(
            '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\nnetns = "host"\n'
            f'[engine]\nruntime = "{Path(runtime).name}"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        )
        self._folder = folder
        self._environment = {**os.environ, "CONTAINERS_CONF": str(configuration)}
        self._command = ("podman", f"--root={folder}/storage", f"--runroot={folder}/run", f"--storage-driver={storage}")

    def run(self, *arguments: str, **options: object) -> str:
        """What a command of podman prints."""
        command = [*self._command, *arguments]
        done = subprocess.run(command, env=self._environment, check=True, text=True, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload]
        return str(done.stdout)

    def build(self, tag: str, context: Path, *arguments: str) -> None:
        """Build an image, and print what the build prints."""
        command = [*self._command, "build", "--pull=never", f"--tag={tag}", *arguments, str(context)]
        subprocess.run(command, env=self._environment, check=True)

    def layers(self, image: str) -> Sequence[int]:
        """The bytes of each compressed layer of an image, as a registry has them."""
        target = self._folder / "pushed"
        shutil.rmtree(target, ignore_errors=True)
        self.run("push", "--quiet", "--compress", image, f"dir:{target}")
        manifest = json.loads((target / "manifest.json").read_text())
        return [(target / layer["digest"].partition(":")[2]).stat().st_size for layer in manifest["layers"]]

    def files(self, image: str) -> Sequence[str]:
        """The paths of all files of an image."""
        with self.mounted(image) as root:
            return [str(path.relative_to(root)) for path in root.rglob("*") if not path.is_dir()]

    @contextmanager
    def mounted(self, image: str) -> Iterator[Path]:
        """The root of an image."""
        root = Path(self.run("image", "mount", image).strip())
        try:
            yield root
        finally:
            self.run("image", "unmount", image)

    @contextmanager
    def container(
        self, image: str, *command: str, environment: Mapping[str, str], volumes: Sequence[str] = ()
    ) -> Iterator[str]:
        """The id of a running container. Its log is printed if the block raises."""
        variables = [f"--env={name}={value}" for name, value in environment.items()]
        made = self.run("run", "--detach", *RESTRICTED, *variables, *volumes, image, *command).strip()
        try:
            yield made
        except BaseException:
            self.run("logs", made, stderr=subprocess.STDOUT)
            raise
        finally:
            self.run("rm", "--force", "--time=20", made)

    def close(self) -> None:
        """Unmount what builds leave mounted."""
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((each for each in mounts if each.startswith(f"{self._folder}/")), reverse=True):
            subprocess.run(["umount", mount], check=True)
