"""The files around templates that make a repository of them, which `ssa-operator new --project` writes.

Promises:
- The repository works without changes: its workflow checks, tests and plans the templates, its image contains them, and
  its values are for the operator's Helm chart.
- A pull request of a fork is checked and tested without secrets. The workflow never runs code of a pull request with
  the permissions of the repository.
- A pull request has one comment with its plan, which each push renews.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import PurePosixPath

from msgspec import Struct

from ssa_operator.tools.scaffold.names import ResourceNames

PERMISSIONS = PurePosixPath("deploy/permissions.yaml")
"""The file with the permissions, as `ssa-operator rbac --helm-values` prints them."""

_FILES = {
    "README.md": "README.md",
    ".gitignore": "gitignore",
    "requirements.txt": "requirements.txt",
    "Dockerfile": "Dockerfile",
    "deploy/values.yaml": "deploy/values.yaml",
    ".github/workflows/operator.yaml": "operator.yaml",
}
"""The files of a repository, each with its original in the folder `repository_files`."""


class Project(Struct, frozen=True, kw_only=True):
    """The names in the files."""

    name: str
    """The name of the operator, and of its folder, image and release."""
    names: ResourceNames
    """The names of its first resource."""
    version: str
    """The version of ssa-operator."""


def repository(project: Project) -> Mapping[PurePosixPath, str]:
    """The text of each file by its path in the repository, without `PERMISSIONS`."""
    originals = resources.files("ssa_operator.tools.scaffold") / "repository_files"
    words = {
        "name": project.name,
        "version": project.version,
        "kind": project.names.kind,
        "folder": project.names.folder,
        "singular": project.names.singular,
    }
    return {PurePosixPath(path): _filled((originals / name).read_text("utf-8"), words) for path, name in _FILES.items()}


def _filled(text: str, words: Mapping[str, str]) -> str:
    """The text with each `@word@` replaced."""
    for word, value in words.items():
        text = text.replace(f"@{word}@", value)
    return text
