"""The same cluster fixtures that the tests of the operator use, with all templates of the project."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ssa_operator.operator import template_sources
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import Sources, load_all
from tests.operator.fixtures import client, desk, options
from tests.operator.harness import ROOT

__all__ = ["client", "desk", "options"]


@pytest.fixture
def templates() -> Path:
    """The project's templates, which no test changes."""
    return ROOT / "templates"


_compiled: list[Sources] = []


@pytest.fixture(autouse=True)
def compiled_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operators of all tests begin with the templates that the first one compiled."""

    def load_changed(roots: Sequence[Path], previous: Sources | None, installation: Installation) -> Sources:
        found = load_all(roots, previous or next(iter(_compiled), None), installation)
        _compiled[:] = [found]
        return found

    monkeypatch.setattr(template_sources, "load_all", load_changed)
