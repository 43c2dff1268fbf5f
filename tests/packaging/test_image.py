"""What the Dockerfile does to the environment, done here without Docker."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packaging.checkout import ROOT

pytestmark = pytest.mark.slow

_PRUNE = ROOT / "deploy" / "image" / "prune.sh"
FILL = ROOT / "deploy" / "image" / "root.py"
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


@pytest.mark.exhaustive
def test_the_group_of_the_operator_is_not_roots(root: Path) -> None:
    # The kubelet asks for the user's number alone; the runtime looks its group up in the image's /etc/passwd.
    text = (ROOT / "Dockerfile").read_text()
    users = re.findall(r"^USER (\d+):(\d+)$", text, re.MULTILINE)
    assert len(users) == 2
    assert len({*users}) == 1
    user, group = users[0]
    assert re.search(rf"^RUN echo '[\w-]+:x:{user}:{group}:.*>>/etc/passwd", text, re.MULTILINE)
    assert f":x:{user}:{group}:" in (root / "etc/passwd").read_text()
    assert int(group) > 0


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of an image with an empty environment, whose Python is the tests' own."""
    if sys.platform != "linux":
        pytest.skip("the image is one of Linux")
    folder = tmp_path_factory.mktemp("image")
    environment, root = folder / "venv", folder / "root"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    subprocess.run([environment / "bin" / "python", "-I", str(FILL), str(environment), str(root)], check=True)
    return root


def test_the_image_has_no_shell_and_no_tool_of_developers(root: Path) -> None:
    names = {path.name for path in root.rglob("*")}
    assert "ssl.py" in names
    assert names & {"sh", "bash", "dash", "ldd", "pip", "ensurepip", "idlelib", "test_ssl.py"} == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root folder")
def test_python_runs_with_nothing_but_what_was_copied(root: Path) -> None:
    (environment,) = root.glob("**/venv/bin/python")
    program = "import asyncio, json, ssl, uuid, zoneinfo, ctypes, pwd, os; print(pwd.getpwuid(os.getuid()).pw_name)"
    as_user = ["chroot", "--userspec=65532:65532", str(root), f"/{environment.relative_to(root)}", "-I", "-c"]
    assert subprocess.run([*as_user, program], capture_output=True, text=True, check=True).stdout == "ssa-operator\n"
    trusted = "import ssl; print(len(ssl.create_default_context().get_ca_certs()) > 0)"
    has_bundle = Path("/etc/ssl/certs/ca-certificates.crt").exists()
    search = {"PATH": os.environ["PATH"]}  # no other variable that names certificates
    printed = subprocess.run([*as_user, trusted], capture_output=True, text=True, check=True, env=search).stdout
    assert printed == f"{has_bundle}\n"


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not on Debian")
def test_the_image_names_the_packages_of_its_libraries(root: Path) -> None:
    entry = (root / "var/lib/dpkg/status.d/libc6").read_text()
    assert entry.startswith("Package: libc6\n")
    assert "\nVersion: " in entry


def test_a_missing_library_is_named() -> None:
    listed = (
        "\tlinux-vdso.so.1 (0x1)\n\tlibz.so.1 => not found\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld.so (0x3)\n"
    )
    module = runpy.run_path(str(FILL))
    assert module["linked"](listed.replace("not found", "/lib/libz.so.1 (0x4)")) == {
        Path("/lib/libz.so.1"),
        Path("/lib/libc.so.6"),
        Path("/lib64/ld.so"),
    }
    with pytest.raises(SystemExit, match=r"shared libraries are missing: libz\.so\.1"):
        module["linked"](listed)
