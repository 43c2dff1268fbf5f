"""What holds for the repository as a whole, whatever the code in it does."""

from __future__ import annotations

import itertools
import re
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.packaging.checkout import ROOT, files

_CONFIGURATION = tomllib.loads((ROOT / "pyproject.toml").read_text())
_EXTRAS = _CONFIGURATION["project"]["optional-dependencies"]
_RUNTIME = (*_CONFIGURATION["project"]["dependencies"], *_EXTRAS["admission"])
_BUILD, _RELEASE, _SITE = (_CONFIGURATION["dependency-groups"][name] for name in ("build", "release", "site"))
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)
_PIN = re.compile(r"^([a-z0-9.-]+)(?:\[.*\])?==(\S+)", re.MULTILINE)
PINS = {name: (ROOT / "deploy" / "constraints" / name).read_text() for name in ("runtime.txt", "dev.txt")}


def found(pattern: str, paths: list[Path]) -> list[str]:
    """`file:line: text` of every line that has the pattern; files that are not UTF-8 have no lines."""
    matches = []
    for path in paths:
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue
        matches += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for number, line in enumerate(lines, 1)
            if re.search(pattern, line)
        ]
    return matches


def test_no_file_names_a_path_of_somebodys_machine() -> None:
    assert found(r"(?<![\w.~-])/(home|Users|root|work|mnt)/\w", files()) == []


def test_no_file_names_a_package_registry() -> None:
    # In two halves each, or this file would be found.
    hosts = ("pypi.org/" + "simple", "files.python" + "hosted", "proxy.golang" + ".org", "registry.npm" + "js")
    settings = ("index" + "-url", "find" + "-links", "trusted" + "-host", "GOPROXY" + "=")
    options = re.escape("--no-emit-")
    pattern = "|".join(re.escape(word) for word in hosts) + "|" + "|".join(f"(?<!{options}){word}" for word in settings)
    assert found(pattern, files()) == []


def test_pinned_versions_come_from_wherever_the_user_gets_packages() -> None:
    pinned = [path for path in files() if path.parent.name in ("constraints", "toolchain")]
    assert len(pinned) == 5
    assert found("://", pinned) == []


def parts() -> tuple[str, str, str]:
    """The parts of dev.txt: what building takes, what a release takes beside it, and the rest."""
    build, release, rest = re.split(r"^# (?:A release|The rest):$", PINS["dev.txt"], flags=re.MULTILINE)
    return build, release, rest


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (_RUNTIME, PINS["runtime.txt"]),
        (_BUILD, parts()[0]),
        (_RELEASE, PINS["runtime.txt"] + "".join(parts()[:2])),
        ((*_SITE, *itertools.chain(*_EXTRAS.values())), "".join(PINS.values())),
    ],
    ids=["runtime", "build", "release", "all"],
)
def test_everything_the_project_requires_is_pinned_with_hashes(wanted: Iterable[str], text: str) -> None:
    pins = dict(_PIN.findall(text))
    for requirement in map(Requirement, wanted):
        pin = pins.get(requirement.name.lower())
        assert pin is not None, f"{requirement} is not pinned: run make constraints"
        assert requirement.specifier.contains(pin), f"{requirement} is pinned to {pin}: run make constraints"
    unhashed = [each for each in re.split(r"\n(?=\S)", text) if _PIN.match(each) and "--hash=sha256:" not in each]
    assert unhashed == []


@pytest.mark.parametrize(
    "name", ["Dockerfile", "Makefile", "action.yaml", ".github/workflows/ci.yaml", ".github/workflows/release.yaml"]
)
def test_packages_are_installed_by_their_hashes_and_run_no_script(name: str) -> None:
    text = (ROOT / name).read_text().replace("\\\n", " ")
    installs = re.findall(r"(?:\bpip\b\"?|\$\(PIP\))[^\n&]*? install\b([^\n&]*)", text)
    packages = [each for each in installs if "--no-deps" not in each]
    assert packages
    assert [each for each in packages if "--require-hashes" not in each or "--only-binary :all:" not in each] == []
    # The project itself, when everything that it requires is there. Build isolation would fetch what builds it.
    ours = [each for each in installs if each not in packages]
    assert [each for each in ours if "--no-build-isolation" not in each and "--no-index" not in each] == []


def test_an_image_has_the_versions_that_were_tested() -> None:
    runtime, dev = (set(_PIN.findall(text)) for text in PINS.values())
    names = {name for name, _ in runtime}
    assert {pin for pin in dev if pin[0] in names} <= runtime


def test_make_help_shows_every_target() -> None:
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text()))
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {"run", "test", "test-all", "lint", "clean"} <= targets
    assert len(targets) <= 18
    assert {line.split()[1] for line in shown.splitlines()} == targets


def test_the_changelog_has_a_place_for_the_next_change() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "[Unreleased]"


def test_documents_link_to_files_that_exist() -> None:
    documents = [path for path in files() if path.suffix == ".md"]
    broken = [
        f"{document.relative_to(ROOT)}: {target}"
        for document in documents
        for target in re.findall(r"\]\((?!\w+:|#)([^)#]+)", document.read_text())
        if not (document.parent / target).exists()
    ]
    assert broken == []


def test_each_promise_of_the_security_page_names_tests() -> None:
    rows = re.findall(
        r"^\| (.+) \| (.+) \|$",
        (ROOT / "SECURITY.md").read_text().partition("## What the operator promises")[2],
        re.MULTILINE,
    )
    promises = [row for row in rows if row != ("promise", "tests") and set(row[0]) != {"-"}]
    assert len(promises) > 40
    for promise, cell in promises:
        # A file, and the names of tests in it.
        files_of_row = re.findall(r"`(tests/\S+?\.py)`((?:<br>`::\w+`)+)", cell)
        assert "<br>".join(f"`{file}`{names}" for file, names in files_of_row) == cell, promise
        for file, names in files_of_row:
            text = (ROOT / file).read_text()
            for name in re.findall(r"\w+", names.replace("<br>", " ")):
                assert re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE), promise


def test_documents_name_modules_that_exist() -> None:
    documents = [path for path in files() if path.suffix == ".md"]
    rooms = "|".join(path.parent.name for path in (ROOT / "ssa_operator").glob("*/__init__.py"))
    named = {
        (document.name, module)
        for document in documents
        for module in re.findall(rf"`(?:ssa_operator/)?((?:{rooms})/(?:\w+/)*\w+\.py)`", document.read_text())
    }
    assert named
    assert {(name, module) for name, module in named if not (ROOT / "ssa_operator" / module).exists()} == set()
