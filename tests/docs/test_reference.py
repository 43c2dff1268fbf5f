"""docs/commands.md is what the commands say of themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest

from docs.generate import reference
from ssa_operator.checks.findings import CODES
from tests.cli.test_manners import COMMANDS


def test_the_page_of_commands_is_up_to_date() -> None:
    committed = reference.PAGE.read_text(encoding="utf-8")
    assert committed == reference.page(), "run `make docs`"


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_a_section_with_usage_options_and_an_example(words: tuple[str, ...]) -> None:
    heading = f"\n{'#' * (len(words) + 1)} {' '.join(words)}\n"
    text = reference.page()
    assert text.count(heading) == 1
    section = text.partition(heading)[2].partition("\n## ")[0]
    assert f"```\nssa-operator {' '.join(words)} " in section
    for parameter in COMMANDS[words].params:
        if parameter.param_type_name == "option" and parameter.name != "help":
            assert f"| `{parameter.envvar}` |" in section


def test_the_page_does_not_depend_on_the_terminal_or_the_environment() -> None:
    script = "from docs.generate import reference; print(reference.page(), end='')"
    environment = {"COLUMNS": "40", "SSA_OPERATOR_OUTPUT": "json", "HOME": "/nowhere", "LC_ALL": "C.UTF-8"}
    made = subprocess.run(
        [sys.executable, "-c", script], cwd=reference.ROOT, env=environment, capture_output=True, check=True
    )
    assert made.stdout.decode() == reference.page()


def test_prose_of_a_command_that_does_not_exist_is_an_error(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "introduction.md").write_text("a")
    (folder / "no-command.md").write_text("b")
    monkeypatch.setattr(reference, "PROSE", folder)
    with pytest.raises(ValueError, match=r"no command belongs to .*no-command\.md"):
        reference.page()


def test_the_page_lists_every_code_of_check() -> None:
    page = reference.PAGE.read_text(encoding="utf-8")
    for code, found in CODES.items():
        assert f"| `{code}` | {found.severity} | {found.title} |" in page
