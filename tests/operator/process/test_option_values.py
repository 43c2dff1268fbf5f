"""The values of options that can't be used end a command with what to write."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.operator.process.option_values import check_crd_folders, check_folders, timeout_of
from ssa_operator.operator.process.streams import CommandError

BEGIN = "`ssa-operator new KIND --group example.com`"


def test_a_missing_templates_folder_gets_the_command_that_writes_the_first(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="with --templates, or begin with") as error:
        check_folders([tmp_path / "templates"])
    assert BEGIN in str(error.value)


def test_a_missing_folder_of_crds_gets_it_too(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"with --crds, or begin with") as error:
        check_crd_folders([tmp_path / "crds"])
    assert BEGIN in str(error.value)


def test_an_empty_templates_folder_gets_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check_folders([tmp_path])
    assert capsys.readouterr().err == (
        f"note: {tmp_path} has no folder of a resource; add one, named <plural>.<group>, for example by {BEGIN}\n"
    )


def test_a_folder_with_templates_gets_no_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "echoes.example.com").mkdir()
    check_folders([tmp_path])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("given", "seconds"), [("30", 30.0), ("0.5", 0.5), ("90s", 90.0), ("5m", 300.0), (30.0, 30.0)])
def test_a_timeout_is_a_number_of_seconds_or_a_duration(given: str | float, seconds: float) -> None:
    assert timeout_of(given) == seconds


@pytest.mark.parametrize("given", ["-1", "5 minutes", "nan", ""])
def test_any_other_timeout_says_what_to_write(given: str) -> None:
    with pytest.raises(CommandError, match=r"--timeout: .* is not a duration; write one like 500ms, 10s, 1h30m or 7d"):
        timeout_of(given)
