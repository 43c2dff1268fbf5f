"""Each example of the gallery has golden cases in `cases/<example>/`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.rendering.sources import load
from tests.examples.gallery import GALLERY, NAMES
from tests.rendering import golden

CASES = Path(__file__).parent / "cases"


@pytest.mark.parametrize("case", sorted(str(path.relative_to(CASES)) for path in CASES.glob("*/*")))
def test_an_example_renders_what_its_case_expects(case: str) -> None:
    sources = load(GALLERY / Path(case).parent / "templates")
    assert sources.problems == ()
    (folder,) = sources.folders.values()
    golden.check(CASES / case, folder)


def test_every_example_has_a_case_and_a_page() -> None:
    assert {path.name for path in CASES.iterdir()} == set(NAMES)
    assert all((GALLERY / name / "README.md").exists() for name in NAMES)
