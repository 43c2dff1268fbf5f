"""What the Dockerfile does to the environment, done here without Docker."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.checkout import ROOT

_PRUNE = ROOT / "deploy" / "image" / "prune.sh"
_LOAD = """
import asyncio, json, sys
from ssa_operator.kube.auth import credentials
found = asyncio.run(credentials.load(sys.argv[1]))
import kubernetes
print(json.dumps({"server": found.server, "client": kubernetes.__file__}))
"""
_TOKEN = "e30.eyJleHAiOjQwMDAwMDAwMDB9.x"
"""It expires in 2096."""

_KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "here",
    "clusters": [{"name": "here", "cluster": {"server": "https://127.0.0.1:6443"}}],
    "users": [{"name": "here", "user": {"auth-provider": {"name": "oidc", "config": {"id-token": _TOKEN}}}}],
    "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
}


@pytest.fixture(scope="module")
def pruned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed client, pruned as it is in the image."""
    spec = importlib.util.find_spec("kubernetes")
    assert spec is not None
    assert spec.origin is not None
    folder = tmp_path_factory.mktemp("site-packages")
    shutil.copytree(Path(spec.origin).parent, folder / "kubernetes", ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run(["sh", str(_PRUNE), str(folder)], check=True)
    return folder


def test_credentials_are_read_with_what_is_left_of_the_official_client(pruned: Path, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(_KUBECONFIG))
    run = subprocess.run(
        [sys.executable, "-c", _LOAD, str(kubeconfig)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(pruned), str(ROOT))), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    printed = json.loads(run.stdout)
    assert printed["server"] == "https://127.0.0.1:6443"
    assert Path(printed["client"]).is_relative_to(pruned)


def test_little_is_left_of_the_official_client(pruned: Path) -> None:
    left = [path for path in pruned.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in left) < 1 << 20
    assert not [path for path in left if path.suffix != ".py"]


def test_pruning_something_else_is_refused(tmp_path: Path) -> None:
    kept = tmp_path / "kubernetes" / "notes.txt"
    kept.parent.mkdir()
    kept.write_text("not the client")
    run = subprocess.run(["sh", str(_PRUNE), str(tmp_path)], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "is not the official Kubernetes client" in run.stderr
    assert kept.exists()


def test_everything_the_image_copies_is_sent_to_the_builder() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        source.rstrip("/")
        for line in re.findall(r"^COPY (?!--from)(.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
        for source in [word for word in line.split() if not word.startswith("--")][:-1]
    }
    assert copied
    for source in copied:
        assert (ROOT / source).exists()
        assert any(source == each or source.startswith(f"{each}/") for each in allowed), f"{source} is in .dockerignore"


def test_the_group_of_the_operator_is_not_roots() -> None:
    # The kubelet asks for the user's number alone; the runtime looks its group up in the image's /etc/passwd.
    text = (ROOT / "Dockerfile").read_text()
    user, group = re.findall(r"^USER (\d+):(\d+)$", text, re.MULTILINE)[0]
    assert re.search(rf"^RUN echo '[\w-]+:x:{user}:{group}:.*>>/etc/passwd", text, re.MULTILINE)
    assert int(group) > 0
