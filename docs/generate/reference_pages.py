"""Makes the pages of the site that the code says: commands, reference, the JSON of the page, and licences.

Promises:
- Every command is on the page of its topic, with its usage, help, arguments, options, their variables and an example.
- The pages depend on the code and its dependencies alone, not on the terminal or the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer._click import Context
from typer.main import get_command

from docs.generate import licences, openapi
from ssa_operator.cli import reference
from ssa_operator.cli.main import application_of
from ssa_operator.cli.topics import MODULES, REFERENCE, TOPICS
from ssa_operator.web.answers import OPERATIONS

API = "reference/openapi.json"


def pages() -> dict[str, str]:
    """The text of each page and of the OpenAPI document, by its path on the site."""
    command: Any = get_command(application_of())
    found = {f"reference/{topic}.md": reference.text(topic, command) for topic in REFERENCE}
    for topic, names in TOPICS.items():
        room = MODULES[names[0]].split(".")[2]
        sections = (part for name in names for part in _sections(command.commands[name], ("ssa-operator", name)))
        found[f"commands/{room}.md"] = _page(topic, *sections)
    rows = [(f"`{path}`", operation.summary) for path, operation in OPERATIONS.items()]
    found["reference/api.md"] = _page(
        "The JSON of the page", reference.table(("path", "answer"), rows), "[OpenAPI document](openapi.json)"
    )
    found[API] = openapi.text()
    found["reference/licences.md"] = _page("Licences of the image", licences.table())
    return found


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", *parts]) + "\n"


def _sections(command: Any, words: tuple[str, ...]) -> Iterator[str]:
    """The sections of a command and its subcommands, from the heading on."""
    context = Context(command, info_name=" ".join(words), terminal_width=200)
    yield f"{'#' * len(words)} {' '.join(words[1:])}"
    yield "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", command.help or ""))
    subcommands = getattr(command, "commands", None)
    if subcommands is None:
        yield f"```text\n{' '.join([*words, *command.collect_usage_pieces(context)])}\n```"
    if records := [record for each in command.params if (record := each.get_help_record(context))]:
        yield reference.table(("argument or option", "meaning"), ((f"`{name}`", text) for name, text in records))
    if command.epilog and subcommands is None:
        yield "```sh\n" + re.sub(r"^Example: ", "", command.epilog, flags=re.MULTILINE) + "\n```"
    for name, each in (subcommands or {}).items():
        yield from _sections(each, (*words, name))
