"""Makes docs/commands, a page for each command, from the commands and from the prose in docs/generate/commands.

Promises:
- Every command has a page, and every subcommand a section of it: usage, help, arguments, options with their environment
  variables, an example, and the prose of its file, if there is one (`cluster-start.md` for `cluster start`).
- A command whose prose begins with examples shows these, and not the one of the help, too.
- A file of prose that belongs to no command is an error.
- The pages depend on the commands and the prose alone, not on the terminal or the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from typer._click import Context
from typer.main import get_command

from ssa_operator.cli.main import application_of
from ssa_operator.cli.topics import MODULES, TOPICS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "commands"
PROSE = Path(__file__).parent / "commands"
INTRODUCTION = "introduction"

_NOTE = "<!-- `make docs` writes this page from the commands' help and from docs/generate/commands. -->"
_EXTRA = re.compile(r"\s*\[((?:env var|default|required)\b.*)\]$", re.DOTALL)
_REPLACED = {"--help", "--install-completion", "--show-completion"}


def pages() -> Mapping[Path, str]:
    """The text of each page. Raises ValueError for prose without a command."""
    root: Any = get_command(application_of())
    prose = {path.stem: _prose(path) for path in sorted(PROSE.glob("*.md"))}
    first, _, introduction = prose.pop(INTRODUCTION).partition("\n\n")
    made = {FOLDER / "README.md": _page(["# Commands", _NOTE, first, "\n".join(_summary(root)), introduction])}
    for name in MODULES:
        title, *parts = _sections(root.commands[name], ("ssa-operator", name), prose)
        made[FOLDER / f"{name}.md"] = _page([title, _NOTE, *parts])
    if prose:
        raise ValueError(f"no command belongs to {', '.join(f'{PROSE.name}/{name}.md' for name in prose)}")
    return made


def write() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


def _page(parts: Iterable[str]) -> str:
    return "\n\n".join(parts) + "\n"


def usage(command: Any, words: tuple[str, ...]) -> str:
    """How a command is called: its words, its options and its arguments."""
    return " ".join([*words, *command.collect_usage_pieces(Context(command, info_name=" ".join(words)))])


def _prose(path: Path) -> str:
    """The text of a file of prose, with its links as the pages need them."""
    return path.read_text(encoding="utf-8").strip().replace("](../../", "](../")


def _summary(root: Any) -> Iterator[str]:
    """The table of all commands."""
    yield "| command | what it does |"
    yield "|---|---|"
    for topic, names in TOPICS.items():
        yield f"| **{topic}** | |"
        for name in names:
            yield f"| [`{name}`]({name}.md) | {_cell(root.commands[name].get_short_help_str(200))} |"


def _sections(command: Any, words: tuple[str, ...], prose: dict[str, str]) -> Iterator[str]:
    """The sections of a command and its subcommands, from the heading on."""
    context = Context(command, info_name=" ".join(words))
    yield f"{'#' * (len(words) - 1)} {' '.join(words[1:])}"
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield f"```\n{usage(command, words)}\n```"
    yield _paragraphs(command.help or "")
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each not in arguments and not set(each.opts) & _REPLACED]
    if arguments:
        yield _table(
            ("argument", "meaning"), ((f"`{_name(each, context)}`", _help(each, context)[0]) for each in arguments)
        )
    if options:
        yield _table(("option", "meaning", "default", "variable"), (_option(each, context) for each in options))
    text = prose.pop("-".join(words[1:]), "")
    if command.epilog and subcommands is None and not text.startswith("```sh\n"):
        yield "```sh\n" + "\n".join(line.removeprefix("Example: ") for line in command.epilog.splitlines()) + "\n```"
    if text:
        yield text
    for name, each in (subcommands or {}).items():
        yield from _sections(each, (*words, name), prose)


def _option(option: Any, context: Context) -> tuple[str, str, str, str]:
    text, extras = _help(option, context)
    default = extras.get("default", "")
    limits = [each for each in extras.get("limits", "").split("; ") if each]
    meaning = f"{text} ({', '.join(limits)})" if limits else text
    return (
        f"`{_name(option, context)}`",
        meaning,
        f"`{default}`" if default else "",
        f"`{option.envvar}`" if option.envvar else "",
    )


def _name(parameter: Any, context: Context) -> str:
    return _cell(str(parameter.get_help_record(context)[0]))


def _help(parameter: Any, context: Context) -> tuple[str, dict[str, str]]:
    """The help of a parameter, and the remarks that its help has in brackets."""
    record = parameter.get_help_record(context)
    text = str(record[1])
    found = _EXTRA.search(text)
    if found is None:
        return _cell(text), {}
    extras: dict[str, str] = {}
    for each in found[1].split("; "):
        name, colon, value = each.partition(": ")
        if colon:
            extras[name] = value
        elif name != "required":
            extras["limits"] = "; ".join(filter(None, (extras.get("limits", ""), name)))
    return _cell(text[: found.start()]), extras


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("  ", " ") for cells in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _paragraphs(text: str) -> str:
    """Help text as Markdown: a paragraph is one line."""
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
