"""The golden cases of tests/cases: a case without its own templates uses those of the project."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.cli.template_folders import find_folder
from ssa_operator.rendering.folder.sources import load
from tests.rendering import golden

CASES = Path(__file__).parent.parent / "cases"


@pytest.mark.parametrize("name", sorted(path.name for path in CASES.iterdir()))
def test_a_case_renders_what_it_expects(name: str) -> None:
    case = CASES / name
    own = case / "templates"
    sources = load(own if own.exists() else CASES.parent.parent / "templates")
    assert sources.problems == ()
    (owner,) = golden.read(case / "resource.yaml")
    golden.check(case, find_folder(owner, sources, {}))
