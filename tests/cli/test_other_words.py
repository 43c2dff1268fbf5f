"""Words that hands type which know kubectl, Helm and other tools: each leads to what does the same here."""

from __future__ import annotations

import re

import pytest
from typer.main import get_command

from ssa_operator import __version__
from ssa_operator.cli import other_words
from ssa_operator.cli.main import application_of
from tests.cli.process import run

ROOT_COMMAND = get_command(application_of())


async def test_help_is_h_too_and_a_command_of_its_own() -> None:
    for words, equal in (
        (("-h",), ("--help",)),
        (("help",), ("--help",)),
        (("help", "tree"), ("tree", "--help")),
        (("tree", "-h"), ("tree", "--help")),
        (("cluster", "-h"), ("cluster", "--help")),
        (("cluster", "help", "start"), ("cluster", "start", "--help")),
        (("help", "cluster", "start"), ("cluster", "start", "--help")),
    ):
        shown = await run(*words)
        assert shown[0] == 0, words
        assert shown == await run(*equal), words
    assert "ssa-operator help COMMAND" in (await run("help"))[1]


async def test_the_help_cuts_no_summary() -> None:
    for words in (("--help",), ("crds", "--help")):
        _, out, _ = await run(*words, COLUMNS="80")
        assert "..." not in out.replace("[ARGS]...", "")
        assert max(map(len, out.splitlines())) <= 80


async def test_version_is_a_command_and_an_option() -> None:
    assert await run("version") == await run("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize(
    ("word", "ours"),
    [
        ("get", "status"),
        ("describe", "tree"),
        ("lint", "check"),
        ("validate", "check"),
        ("template", "render"),
        ("init", "new"),
        ("create", "new"),
        ("logs", "kubectl logs"),
        ("delete", "kubectl delete"),
        ("install", "crds apply"),
        ("upgrade", "plan"),
        ("edit", "kubectl edit"),
    ],
)
def test_a_command_of_another_tool_leads_to_ours(word: str, ours: str) -> None:
    assert re.search(rf"\b{ours}\b", other_words.command_hint("", word) or ""), word


async def test_the_meaning_of_a_command_comes_before_its_spelling() -> None:
    _, _, err = await run("create", "x")
    assert re.fullmatch(r"ssa-operator: no such command 'create'; write new .*\. See ssa-operator --help\.\n", err)


async def test_a_misspelt_command_is_still_suggested_by_its_spelling() -> None:
    _, _, err = await run("treee")
    assert err == "ssa-operator: no such command 'treee'; did you mean 'tree'? See ssa-operator --help.\n"
    _, _, err = await run("cluster", "create")
    assert (
        err == "ssa-operator cluster: no such command 'create'; write cluster start. See ssa-operator cluster --help.\n"
    )


async def test_an_option_of_another_tool_leads_to_ours() -> None:
    for arguments, hint in (
        (("check", "--set", "a=b"), "write --values FILE for settings of the installation"),
        (("apply", "a.yaml", "--dry-run"), "write the command diff or plan"),
        (("tree", "a/b", "--outptu"), "did you mean --output?"),
        (("status", "--all"), "write --all-namespaces, or -A"),
    ):
        code, _, err = await run(*arguments)
        assert code == 2
        assert hint in err
        assert "--strict" not in err


async def test_every_usage_error_names_the_help_of_its_command() -> None:
    for words, command in (
        (("dev", "--until-ready=60"), "dev"),
        (("tree", "--watch=yes"), "tree"),
        (("cluster", "start", "--audit=yes"), "cluster start"),
        (("tree", "--output"), "tree"),
    ):
        code, _, err = await run(*words)
        assert code == 2
        assert err.startswith(f"ssa-operator {command}: ")
        assert err.endswith(f" See ssa-operator {command} --help.\n")


def test_an_option_is_suggested_only_where_the_command_has_it() -> None:
    assert other_words.option_hint("--json", ["--output"]) == "write --output json"
    assert other_words.option_hint("--json", ["--templates"]) is None
    assert other_words.option_hint("-v", ["--log-level"]) == "write --log-level debug"
    assert "ssa-operator --debug" in (other_words.option_hint("-v", []) or "")


def test_every_command_and_option_that_a_hint_names_exists() -> None:
    """A hint begins with `write` and our words, or names a command of kubectl."""
    commands = ROOT_COMMAND.commands  # type: ignore[attr-defined]
    options = {name for each in commands.values() for option in each.params for name in option.opts}
    tables = (other_words.COMMANDS, *other_words.SUBCOMMANDS.values())
    hints = {hint for table in tables for hint in table.values()}
    for hint in hints:
        for named in re.findall(r"write ([a-z]+)\b", hint):
            assert named in commands or named in ("kubectl", "git", "ssa"), hint
    assert other_words.OPTIONS.keys() <= {*options, "--filename"}


def test_no_command_of_ours_has_the_word_of_another_tool() -> None:
    commands = ROOT_COMMAND.commands  # type: ignore[attr-defined]
    assert not commands.keys() & other_words.COMMANDS.keys()
