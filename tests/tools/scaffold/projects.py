"""Projects that `ssa-operator new` writes, made and looked at within the test's process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner, Result

from ssa_operator.cli.main import application_of
from ssa_operator.operator.crd_files import load_crds
from ssa_operator.tools.offline.project import crds_of


def invoke(folder: Path, *arguments: str) -> Result:
    """A command for the project in a folder."""
    return CliRunner().invoke(application_of(), [*arguments, f"--templates={folder / 'templates'}"])


@contextmanager
def project(*arguments: str, kind: str = "Thing") -> Iterator[Path]:
    """A project in a folder of its own, made by `new`."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        made = invoke(folder, "new", kind, "--group=example.com", *arguments)
        assert made.exit_code == 0, (made.output, made.exception)
        yield folder


def findings(folder: Path) -> list[dict[str, Any]]:
    """What `check` finds."""
    result = invoke(folder, "check", "--output=json", "--api-server=never")
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def rendered(folder: Path, example: str = "thing") -> list[dict[str, Any]]:
    """The manifests of the example."""
    result = invoke(folder, "render", str(folder / "examples" / f"{example}.yaml"), "--output=json")
    assert result.exit_code == 0, (result.output, result.exception)
    found = json.loads(result.stdout)
    return found["items"] if found["kind"] == "List" else [found]


def read(path: Path) -> Any:
    """The document of a YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def crd(folder: Path) -> Any:
    """The CRD of the project."""
    (found,) = load_crds(*(path for path in crds_of([folder / "templates"], None) if path.exists()))
    return found.body


def spec_of(folder: Path) -> Any:
    """The schema of the project's spec."""
    (version,) = crd(folder)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]
