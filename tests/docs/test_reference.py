"""The pages of the site that the code says have every name that users meet, and the command line prints the same."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache

import pytest

from docs.generate import reference_pages
from ssa_operator.cli.topics import MODULES, REFERENCE
from ssa_operator.objects.annotations import PREFIX, AnnotationError, parse_annotations
from ssa_operator.operator.metrics import Metrics
from ssa_operator.rendering.jinja import filters, functions
from ssa_operator.tools.checks.codes import CODES
from ssa_operator.tools.editor import vocabulary
from ssa_operator.web.answers import OPERATIONS
from tests.cli.process import run
from tests.cli.test_manners import COMMANDS
from tests.packaging.checkout import ROOT

written = cache(reference_pages.pages)


@pytest.mark.more_cases
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_has_a_section_with_usage_options_and_an_example(words: tuple[str, ...]) -> None:
    room = MODULES[words[0]].split(".")[2]
    text = "\n" + written()[f"commands/{room}.md"]
    _, section = text.split(f"\n{'#' * (len(words) + 1)} {' '.join(words)}\n")
    section = re.split(r"\n##+ ", section)[0]
    assert f"```text\nssa-operator {' '.join(words)} " in section
    assert f"ssa-operator {' '.join(words)}" in section.partition("```sh")[2]
    for parameter in COMMANDS[words].params:
        if parameter.param_type_name == "option" and parameter.name != "help":
            assert f"[env var: {parameter.envvar}" in section


def test_the_pages_do_not_depend_on_the_terminal_or_the_environment() -> None:
    script = "from docs.generate.reference_pages import pages; print(*pages().values(), sep='', end='')"
    environment = {"COLUMNS": "40", "SSA_OPERATOR_OUTPUT": "json", "HOME": "/nowhere", "LC_ALL": "C.UTF-8"}
    made = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, check=True)
    assert made.stdout.decode() == "".join(written().values())


@pytest.mark.parametrize("topic", REFERENCE)
async def test_help_prints_a_page_of_the_reference(topic: str) -> None:
    assert topic not in MODULES
    assert await run("help", topic) == (0, written()[f"reference/{topic}.md"], "")


@pytest.mark.exhaustive
@pytest.mark.parametrize("code", CODES)
async def test_explain_prints_what_the_page_says_about_a_code(code: str) -> None:
    assert f"\n## {code}\n" in (page := written()["reference/checks.md"])
    _, out, _ = await run("check", f"--explain={code}")
    assert out.partition("\n\n")[2].strip() in page


def test_the_reference_has_every_name_that_users_meet() -> None:
    pages = written()
    for name in (*functions.VARIABLES, *filters.FILTERS, *filters.TESTS, *functions.FUNCTIONS):
        assert re.search(rf"`{re.escape(name)}[`(]", pages["reference/templates.md"]), name
    for name in functions.CLUSTER_FUNCTIONS:
        assert f"| `{name}(" in pages["reference/templates.md"]
    for each in Metrics().definitions():
        assert f"| `{each.name}` |" in pages["reference/metrics.md"]
    for path in OPERATIONS:
        assert f"| `{path}` |" in pages["reference/api.md"]
    for words in COMMANDS.values():
        for parameter in words.params:
            assert not parameter.envvar or f"| `{parameter.envvar}` |" in pages["reference/environment.md"]


def test_a_variable_of_an_option_is_not_listed_as_one_without() -> None:
    with_option, without = (
        set(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))
        for part in written()["reference/environment.md"].split("## Variables without an option")
    )
    assert "SSA_OPERATOR_DEBUG" in with_option
    assert without
    assert not with_option & without


def test_the_reference_lists_the_annotations_that_the_operator_accepts() -> None:
    page = written()["reference/metadata.md"]
    with pytest.raises(AnnotationError, match="allowed are") as caught:
        parse_annotations({f"{PREFIX}xxxxxxxx": ""})
    allowed = str(caught.value).partition("allowed are ")[2].split(", ")
    listed = re.findall(rf"^\| `{PREFIX}([\w-]+)` ", page.partition("## Annotations of a parent")[0], re.MULTILINE)
    assert sorted(listed) == sorted(allowed)


def test_a_definition_without_a_docstring_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no docstring"):
        vocabulary.call_of("x", lambda: None)
