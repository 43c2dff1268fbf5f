"""The same cluster fixtures that the controller's tests use, with all templates of the project."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.controller.conftest import client, desk, options
from tests.controller.harness import ROOT

__all__ = ["client", "desk", "options"]


@pytest.fixture
def templates(tmp_path: Path) -> Path:
    """A copy of the project's templates."""
    return Path(shutil.copytree(ROOT / "templates", tmp_path / "templates"))
