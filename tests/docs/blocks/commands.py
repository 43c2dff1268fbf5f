"""Checks the commands of pages without running them.

Promises:
- `ssa-operator` parses its arguments itself. Files of the repository define the words that other programs take from it.
- Of other programs the tests know the names alone. tests/docs/test_blocks_on_cluster.py runs the commands of kubectl.
- A file of the repository that a command names exists, unless a command of the page writes it.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from ssa_operator.cli.main import application_of
from tests.docs.blocks.pages import Block
from tests.packaging.checkout import ROOT

Words = tuple[str, ...]

PROGRAMS = {
    *("base64", "ctlptl", "curl", "date", "debootstrap", "docker", "gh", "grep", "helm", "kubectl", "kustomize", "ln"),
    *("make", "pip", "pytest", "python", "ssa-operator", "tar", "tilt"),
}
"""The programs that pages start."""

DEFINED = (
    (r"^docker .*--target (\S+)", "Dockerfile", r" AS {}\n"),
    (r"^helm .*deploy/chart.*--set [\w.]*?(\w+)=", "deploy/chart/values.yaml", r"^ *{}:"),
    (r"^make (?:\S+ )*?([a-z-]+)\b", "Makefile", r"^{}:"),
    (r"^make .*?\b([A-Z]+)=", "Makefile", r"\$\((?:or \$\()?{}\b"),
    (r"^pip install .*\[(\w+)\]", "pyproject.toml", r"^{} = \["),
    (r"^pytest .*-k (\w+)", "tests/**/test_*.py", r"def test_\w*{}"),
    (r"^pytest .*-m \W*(?:not )?(\w+)", "pyproject.toml", r'"{}: '),
    (r"^tilt .*--(\w+)=", "Tiltfile", r"'{}'"),
)
"""The words that a command takes from files of the repository: where they stand in it, and what defines them where."""

_FILES = re.compile(r" (?:-[fkr]|--(?:filename|kustomize|requirement|templates|crds|examples))[ =](\S+)")
"""The options whose values are files or folders to read, of the programs that read files of the repository."""

APPLICATION: Any = get_command(application_of())


def mistakes(block: Block, page: Iterable[Block] = ()) -> list[str]:
    """What is wrong with the commands of a block, beside those of its page."""
    written = {path for each in (*page, block) for path in re.findall(r"(?<![<>\d])> *([\w./-]+)", each.text)}
    try:
        started = invocations(block)
    except ValueError as error:
        return [f"{block.text}: {error}"]
    return [f"{' '.join(words)}: {each}" for folder, words in started for each in _mistakes(folder, words, written)]


def invocations(block: Block) -> list[tuple[Path, Words]]:
    """The programs that the commands of a block start with their arguments, each with its folder. Raises ValueError."""
    folder, found = ROOT, []
    for simple in _simple_commands(block.text):
        words = tuple(itertools.dropwhile(lambda word: re.match(r"\w+=|export$", word), simple))
        if words[:1] in (("cd",), (")",)):
            folder = folder / words[1] if words[0] == "cd" else ROOT
        elif words:
            found.append((folder, (words[0].removeprefix(".venv/bin/"), *words[1:])))
    return found


def _simple_commands(text: str) -> Iterator[Words]:
    for line in re.sub(r"(^|\s)#.*|\d?[<>]+ *[\w./-]+", "", text.replace("\\\n", " "), flags=re.MULTILINE).splitlines():
        for inner in re.findall(r"\$\(([^()]*)\)", line):
            yield from _simple_commands(inner)
        lexer = shlex.shlex(re.sub(r"\$\([^()]*\)", "x", line), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        for is_operator, group in itertools.groupby(lexer, lambda word: not word.strip("();<>|&")):
            words = tuple(group)
            yield words if not is_operator else (")",) if ")" in "".join(words) else ()


def _mistakes(folder: Path, words: Words, written: set[str]) -> Iterator[str]:
    command = " ".join(words)
    if words[0] not in PROGRAMS and not (ROOT / words[0]).is_file():
        yield "this is no program that tests.docs.blocks.commands knows"
    for pattern, files, definition in DEFINED:
        for word in re.findall(pattern, command):
            if not re.search(definition.format(re.escape(word)), _text(files), re.MULTILINE):
                yield f"there is no {word} in {files}"
    if words[0] == "ssa-operator" or words[:2] == ("kubectl", "ssa"):
        yield from _wrong_usage(words[1 + (words[0] == "kubectl") :])
    if words[0] == "python":
        yield from _wrong_module(words[1:])
    for target, options in re.findall(r"^make (\S+) ARGS=(.*)", command):
        for module in re.findall(rf"^{target}:.*\n(?:\t.*\n)*?\t.*python -m (\S+)", _text("Makefile"), re.MULTILINE):
            yield from _wrong_module(("-m", module, *shlex.split(options)))
    paths = {path for word in words[1:] for path in [word.partition("=")[2] or word] if re.match(r"\.?\w+/", path)}
    paths = {path for path in paths if (ROOT / path.partition("/")[0]).is_dir()}
    if words[0] in ("ssa-operator", "kubectl", "pip", "ctlptl"):
        paths |= {*_FILES.findall(command)} - {"-", *written}
    made = {path for path in paths if path.startswith("dist/") or (folder / path.partition("::")[0]).exists()}
    yield from (f"there is no {path}" for path in paths - made)


def _wrong_usage(words: Words) -> Iterator[str]:
    command, arguments = APPLICATION, [*words]
    while arguments and arguments[0] in getattr(command, "commands", {}):
        command = command.commands[arguments.pop(0)]
    try:
        command.make_context(command.name, arguments)
        if hasattr(command, "commands"):
            yield f"there is no command {' '.join(arguments)}"
    except Exception as error:
        if hasattr(error, "format_message"):  # an error of usage
            yield error.format_message()
        elif type(error).__name__ != "Exit":  # `--help` exits
            raise


def _wrong_module(words: Words) -> Iterator[str]:
    """What is wrong with a module and its options, which the source of a module of the project has as texts."""
    spec = importlib.util.find_spec(words[1]) if words[:1] == ("-m",) else None
    if spec is None or spec.origin is None:
        yield "this is no module of the environment"
    elif (path := Path(spec.origin)).is_relative_to(ROOT) and ".venv" not in path.parts:
        source = _text(f"{words[1].replace('.', '/')}{'/**/*' if spec.submodule_search_locations else ''}.py")
        options = {word.partition("=")[0] for word in words[2:] if word.startswith("--")}
        yield from (f"{words[1]} has no option {option}" for option in options if f'"{option}"' not in source)


@functools.cache
def _text(files: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(ROOT.glob(files)))
