"""No single step of a template takes minutes or gigabytes: each is refused before it begins, with its line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.rendering.bombs import BOMBS, STATIC

LINE = "echoes.example.com/a.yaml.j2:"


def problems_of(*names: str) -> Mapping[str, Sequence[str]]:
    """The problems of the templates whose names begin so, by default of all, or what ended their processes."""
    command = [sys.executable, "-m", "tests.rendering.bombs", *names]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], check=True, capture_output=True, text=True)
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.fixture(scope="module")
def problems() -> Mapping[str, Sequence[str]]:
    """The problems of each template, or what ended its process."""
    return problems_of()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", BOMBS)
def test_no_step_of_a_template_takes_long_or_much_memory(problems: Mapping[str, Sequence[str]], name: str) -> None:
    for problem in problems[name]:
        assert problem.startswith(LINE)


@pytest.mark.exhaustive
def test_a_value_that_doubles_itself_is_refused_wherever_it_is_read(problems: Mapping[str, Sequence[str]]) -> None:
    read = {name: found for name, found in problems.items() if name.startswith("a list, read: ")}
    assert len(read) > 90
    for found in read.values():
        (problem,) = found
        assert problem.startswith(f"{LINE}5: a value is larger than 1")


def test_a_value_that_is_too_deep_is_refused_wherever_it_is_hashed() -> None:
    deep = problems_of("a deep tuple: ", "arguments: ")
    assert deep
    for found in deep.values():
        (problem,) = found
        assert problem.startswith(f"{LINE}5: the value is nested deeper than ")


def test_templates_that_double_a_value_are_read_without_a_parent() -> None:
    assert problems_of("static: ") == {f"static: {name}": [] for name in STATIC}
