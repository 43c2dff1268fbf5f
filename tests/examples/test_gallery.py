"""Each example of the gallery has a page, golden cases, and in `offline/` the output of `render`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.generate.transcripts import resource
from ssa_operator.cli.main import application_of
from tests.cli.process import run
from tests.examples.example_catalog import GALLERY, NAMES, ROOT

OFFLINE = Path(__file__).parent / "offline"
"""What `ssa-operator render` prints for the object that an example begins with."""


def test_every_example_has_a_case_and_a_page() -> None:
    assert {path.parts[-5] for path in GALLERY.glob("*/tests/*/*/parent.yaml")} == set(NAMES)
    assert all((GALLERY / name / "README.md").exists() for name in NAMES)


@pytest.mark.more_cases
@pytest.mark.parametrize("name", NAMES)
async def test_an_example_can_be_looked_at_without_a_cluster(name: str) -> None:
    files = GALLERY / name
    folders = [f"--{option}={files / option}" for option in ("templates", "crds") if (files / option).exists()]
    code, out, err = await run("render", resource(files / "README.md"), *folders, KUBECONFIG="nowhere")
    assert (code, err) == (0, "")
    # Passwords are drawn, and are never the same.
    out = re.sub(r"(password: )[A-Za-z0-9]{24,32}$", r"\1<generated>", out, flags=re.MULTILINE)
    assert out == (OFFLINE / f"{name}.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_a_page_begins_with_a_command_whose_files_exist(name: str) -> None:
    page = (GALLERY / name / "README.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^```sh\n(ssa-operator dev .*)\n```$", page, re.MULTILINE)
    paths = re.findall(r" --(?:templates|crds|examples) (\S+)", command)
    assert len(paths) >= 2
    assert [path for path in paths if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("name", ["", *NAMES])
def test_each_example_and_the_project_pass_check_in_their_own_folder(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(GALLERY / name if name else ROOT)
    result = CliRunner().invoke(application_of(), ["check", "--strict", "--api-server=never"])
    assert (result.exit_code, result.output) == (0, "")
