"""What users get when they install the package, and the list of what the image has."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from email.message import Message
from email.parser import Parser
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from docs.generate.licences import bill_of_materials, licences, runtime_components, table
from tests.packaging.checkout import ROOT, files


def build(source: Path, folder: Path) -> Path:
    """The wheel of a source tree, in a new folder."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=source, capture_output=True, text=True, check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    return ZipFile(build(ROOT, tmp_path_factory.mktemp("wheel")))


def metadata(wheel: ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return Parser().parsestr(wheel.read(name).decode())


def test_it_has_every_file_of_the_package_but_the_source_of_the_page(wheel: ZipFile) -> None:
    package = {path.relative_to(ROOT).as_posix() for path in files() if path.is_relative_to(ROOT / "ssa_operator")}
    source = {name for name in package if name.startswith("ssa_operator/web/page/")}
    assert source
    assert {
        "ssa_operator/py.typed",
        "ssa_operator/devcluster/audit-policy.yaml",
        "ssa_operator/devcluster/stages/pod.yaml",
        "ssa_operator/devcluster/toolchain/go.sum",
    } <= package
    assert {name for name in wheel.namelist() if name.startswith("ssa_operator/")} == package - source


def test_it_has_nothing_but_the_package(wheel: ZipFile) -> None:
    assert {Path(name).parts[0].partition("-")[0] for name in wheel.namelist()} == {"ssa_operator"}


def test_it_says_what_it_is(wheel: ZipFile) -> None:
    described = metadata(wheel)
    assert described["License-Expression"] == "Apache-2.0"
    assert described["Requires-Python"] == ">=3.11"
    assert described.get_all("License-File") == ["LICENSE"]


@pytest.mark.exhaustive
def test_two_builds_of_the_same_source_have_the_same_bytes(tmp_path: Path) -> None:
    built = []
    for name, modified in (("one", 1_500_000_000), ("another", 1_700_000_000)):
        source = tmp_path / name
        for path in files():
            copy = source / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
            os.utime(copy, (modified, modified))
        built.append(build(source, tmp_path / f"{name}-wheel").read_bytes())
    assert built[0] == built[1]


PERMISSIVE = frozenset(
    (
        *("Apache-2.0", "Apache Software License", "BSD License", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"),
        *("MIT-0", "MPL-2.0", "PSF-2.0", "Python-2.0"),
    )
)
"""Licences that anybody can pass on without publishing their own code."""


@pytest.fixture(scope="module")
def document() -> Mapping[str, Any]:
    made: Mapping[str, Any] = json.loads(bill_of_materials())
    return made


@pytest.fixture(scope="module")
def components(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return runtime_components(document)


@pytest.mark.slow
def test_it_lists_every_package_of_the_image(components: Sequence[Mapping[str, Any]]) -> None:
    text = (ROOT / "deploy" / "constraints" / "runtime.txt").read_text()
    pins = set(re.findall(r"^(\S+)==(?!.*win32)", text, re.MULTILINE))
    assert len(pins) > 20
    assert [each["name"].lower().replace("_", "-") for each in components] == sorted(pins)


def test_each_package_has_a_licence_that_anybody_can_pass_on(components: Sequence[Mapping[str, Any]]) -> None:
    for each in components:
        declared = [word for text in licences(each) for word in re.split(r" (?:AND|OR) ", text)]
        assert declared, f"{each['name']} declares no licence"
        assert PERMISSIVE.issuperset(declared), f"{each['name']}: {declared}"


@pytest.mark.slow
def test_two_runs_make_the_same_bytes() -> None:
    assert bill_of_materials() == bill_of_materials()


def test_the_page_of_the_site_lists_the_licences(components: Sequence[Mapping[str, Any]]) -> None:
    text = table()
    assert [each["name"] for each in components if f"| {each['name']} | {each['version']} | " not in text] == []
