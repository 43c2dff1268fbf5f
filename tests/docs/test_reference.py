"""docs/commands is what the commands say of themselves, and docs/reference what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest

from docs.generate import command_pages, reference_pages
from ssa_operator.objects.annotations import PREFIX, AnnotationError, parse_annotations
from ssa_operator.rendering.jinja import filters, functions
from ssa_operator.tools.editor import vocabulary
from ssa_operator.tools.findings.codes import CODES
from tests.cli.test_manners import COMMANDS
from tests.packaging.checkout import ROOT

PACKAGE = ROOT / "ssa_operator"

commands = cache(command_pages.pages)
written = cache(reference_pages.pages)


def test_the_pages_of_commands_are_up_to_date() -> None:
    committed = {path: path.read_text(encoding="utf-8") for path in command_pages.FOLDER.iterdir()}
    assert committed == commands(), "run `make docs`"


@pytest.mark.more_cases
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_a_section_with_usage_options_and_an_example(words: tuple[str, ...]) -> None:
    heading = f"\n{'#' * len(words)} {' '.join(words)}\n"
    text = "\n" + commands()[command_pages.FOLDER / f"{words[0]}.md"]
    assert text.count(heading) == 1
    section = text.partition(heading)[2].partition("\n## ")[0]
    assert f"```\nssa-operator {' '.join(words)} " in section
    for parameter in COMMANDS[words].params:
        if parameter.param_type_name == "option" and parameter.name != "help":
            assert f"| `{parameter.envvar}` |" in section


def test_the_first_page_leads_to_the_page_of_each_command() -> None:
    pages = commands()
    table = pages[command_pages.FOLDER / "README.md"]
    assert {command_pages.FOLDER / f"{words[0]}.md" for words in COMMANDS} == pages.keys() - {
        command_pages.FOLDER / "README.md"
    }
    assert [words[0] for words in COMMANDS if f"| [`{words[0]}`]({words[0]}.md) | " not in table] == []


def test_the_pages_do_not_depend_on_the_terminal_or_the_environment() -> None:
    script = "from docs.generate.command_pages import pages; print(*pages().values(), sep='', end='')"
    environment = {"COLUMNS": "40", "SSA_OPERATOR_OUTPUT": "json", "HOME": "/nowhere", "LC_ALL": "C.UTF-8"}
    made = subprocess.run(
        [sys.executable, "-c", script], cwd=command_pages.ROOT, env=environment, capture_output=True, check=True
    )
    assert made.stdout.decode() == "".join(command_pages.pages().values())


def test_prose_of_a_command_that_does_not_exist_is_an_error(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "introduction.md").write_text("a")
    (folder / "no-command.md").write_text("b")
    monkeypatch.setattr(command_pages, "PROSE", folder)
    with pytest.raises(ValueError, match=r"no command belongs to .*no-command\.md"):
        command_pages.pages()


def test_the_page_lists_every_code_of_check() -> None:
    page = (command_pages.FOLDER / "check.md").read_text(encoding="utf-8")
    for code, found in CODES.items():
        assert f"| `{code}` | {found.severity} | {found.title} |" in page


def test_the_pages_of_the_reference_are_up_to_date() -> None:
    committed = {path: path.read_text(encoding="utf-8") for path in reference_pages.FOLDER.iterdir()}
    assert committed == written(), "run `make docs`"


def test_the_page_of_promises_begins_with_every_room_that_has_modules() -> None:
    page = written()[reference_pages.FOLDER / "promises.md"]
    listed = re.findall(r"^\| \[\**`([\w/]+)/`\**\]", page, re.MULTILINE)
    modules = [path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE and path.stem != "__init__"]
    rooms = {path.parent.relative_to(PACKAGE).as_posix() for path in modules}
    assert set(listed) == rooms, "a module of each room says what it promises"
    assert listed[0] == "reconcile"
    assert re.findall(r"^## (.+)$", page, re.MULTILINE) == listed


def test_the_page_of_promises_has_every_module_that_lists_some() -> None:
    page = written()[reference_pages.FOLDER / "promises.md"]
    lists = re.compile(r"^Promises\b", re.MULTILINE)
    modules = [path for path in PACKAGE.rglob("*.py") if lists.search(path.read_text(encoding="utf-8"))]
    names = [path.relative_to(PACKAGE).as_posix() for path in modules]
    assert [name for name in names if f"\n### [{name}](../../ssa_operator/{name})\n" not in page] == []


def test_the_reference_has_every_name_that_users_meet() -> None:
    pages = {path.stem: text for path, text in written().items()}
    for name in (*functions.VARIABLES, *filters.FILTERS, *filters.TESTS, *functions.FUNCTIONS):
        assert re.search(rf"`{re.escape(name)}[`(]", pages["templates"]), name
    for name in functions.CLUSTER_FUNCTIONS:
        assert f"| `{name}(" in pages["templates"]
    for code in CODES:
        assert f"## {code}\n" in pages["checks"]
    for words in COMMANDS.values():
        for parameter in words.params:
            assert not parameter.envvar or f"| `{parameter.envvar}` |" in pages["environment"]


def test_the_reference_lists_the_annotations_that_the_operator_accepts() -> None:
    page = written()[reference_pages.FOLDER / "metadata.md"]
    with pytest.raises(AnnotationError, match="allowed are") as caught:
        parse_annotations({f"{PREFIX}xxxxxxxx": ""})
    allowed = str(caught.value).partition("allowed are ")[2].split(", ")
    listed = re.findall(rf"^\| `{PREFIX}([\w-]+)` ", page.partition("## Annotations of a parent")[0], re.MULTILINE)
    assert sorted(listed) == sorted(allowed)


def test_a_definition_without_a_docstring_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no docstring"):
        vocabulary.call_of("x", lambda: None)
