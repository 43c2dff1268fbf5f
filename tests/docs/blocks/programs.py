"""What the programs that pages start accept: commands, options, targets, and files of the repository.

Promises:
- `ssa-operator` parses its arguments itself; kubectl's and pip's help lists their options.
- What other programs take from the repository exists: a file, a stage of the Dockerfile, a value of the chart, an
  option of the Tiltfile, a target of the Makefile.
- A program that no function here knows is a mistake.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import json
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from typer.main import get_command

from ssa_operator.cli.main import application_of
from tests.docs.blocks.typed_commands import Invocation, Typed, empty_checkout, tracked
from tests.packaging.checkout import ROOT

BIN = Path(sys.executable).parent

WRITTEN: Mapping[str, str] = {
    r"dist/install\.yaml": "make manifests",
    r"tests/[^/]+/explored-\d+-\d+\.yaml": "ssa-operator test --explore",
}
"""The files that programs write, each with the command that does."""


def mistakes(typed: Typed, page: Iterable[Typed]) -> list[str]:
    """What is wrong with the commands of a block; `page` has those of the whole page."""
    found = [typed.errors.strip()] if typed.errors else []
    started = [str(each) for block in page for each in block.invocations]
    for invocation in typed.invocations:
        check = PROGRAMS.get(invocation.program)
        if check is None:
            found.append(f"{invocation.program} is no program that tests.docs.blocks.programs knows")
            continue
        wrong = [*check(invocation), *_missing_files(invocation, typed.written, started)]
        found += [f"{invocation}: {each}" for each in wrong]
    return found


def _missing_files(invocation: Invocation, written: frozenset[str], started: Sequence[str]) -> Iterator[str]:
    """The files of the repository that a command gets and that don't exist."""
    for word in invocation.arguments:
        path = word.partition("=")[2] or word
        inside = path.partition("/")[0] in _top_folders() and "/" in path
        if (inside or path in _files_of(invocation)) and path not in ("-", "."):
            found = _in_repository(invocation, path)
            writer = next((command for pattern, command in WRITTEN.items() if re.fullmatch(pattern, found)), None)
            if writer is not None and any(each.startswith(writer) for each in started):
                continue
            if not (found in written or (empty_checkout() / found).exists()):
                yield f"there is no {path}"


@functools.cache
def _top_folders() -> frozenset[str]:
    return frozenset(path.partition("/")[0] for path in tracked() if "/" in path)


def _in_repository(invocation: Invocation, path: str) -> str:
    """A path below the root of the repository."""
    parts: list[str] = []
    for part in (invocation.folder / path).parts:
        parts = parts[:-1] if part == ".." else [*parts, part]
    return "/".join(parts)


_FILE_OPTIONS = {"-f", "--filename", "-k", "--kustomize", "-r", "--requirement", "--templates", "--crds", "--examples"}
"""The options whose values are files or folders to read."""


def _files_of(invocation: Invocation) -> set[str]:
    """The values of options for files, of the programs that read files of the repository by them."""
    if invocation.program not in ("ssa-operator", "kubectl", "pip", "pip-audit", "ctlptl"):
        return set()
    words = invocation.arguments
    found = {value for option, value in itertools.pairwise(words) if option in _FILE_OPTIONS}
    return found | {value for word in words for option, _, value in [word.partition("=")] if option in _FILE_OPTIONS}


@functools.cache
def _application() -> Any:
    return get_command(application_of())


def _ssa_operator(invocation: Invocation) -> Iterator[str]:
    command = _application()
    words = list(invocation.arguments)
    while words and (subcommand := getattr(command, "commands", {}).get(words[0])):
        command = subcommand
        words.pop(0)
    if hasattr(command, "commands"):
        yield f"there is no command {words[0] if words else ''}".rstrip()
        return
    try:
        command.make_context(command.name, words)
    except Exception as error:
        if not hasattr(error, "format_message"):  # no error of usage
            raise
        yield error.format_message()


@dataclass(frozen=True, slots=True)
class _Options:
    """The options of a command in the form of kubectl's help."""

    names: Mapping[str, bool]
    """Whether each takes a value."""
    subcommands: frozenset[str]

    @classmethod
    def of(cls, text: str) -> _Options:
        """The options that a help text lists."""
        names: dict[str, bool] = {}
        for short, name, default in re.findall(r"^ +(?:-(\w), )?--([\w-]+)=(.*):$", text, re.MULTILINE):
            takes_value = default not in ("true", "false")
            names |= {f"--{name}": takes_value} | ({f"-{short}": takes_value} if short else {})
        commands = re.findall(
            r"^  ([a-z-]+) ", text.partition("Available Commands:")[2].partition("\n\n")[0], re.MULTILINE
        )
        return cls(names, frozenset(commands))


@functools.cache
def _kubectl_help(*words: str) -> str:
    arguments = words if words == ("options",) else (*words, "--help")
    return subprocess.run([BIN / "kubectl", *arguments], capture_output=True, text=True, check=False).stdout


def kubectl_words(arguments: Sequence[str]) -> list[str]:
    """The words of a kubectl command that are neither options nor their values, up to `--`. Raises ValueError."""
    shared = _Options.of(_kubectl_help("options")).names
    command: tuple[str, ...] = ()
    options, positional = _Options(shared, frozenset()), list[str]()
    words = list(arguments)
    while words and (word := words.pop(0)) != "--":
        if word == "-" or not word.startswith("-"):
            positional.append(word)
            if len(command) < len(positional) and f"Usage:\n  kubectl {' '.join(positional)} " in _kubectl_help(
                *positional
            ):
                command = tuple(positional)
                found = _Options.of(_kubectl_help(*command))
                options = _Options({**shared, **found.names}, found.subcommands)
            elif not command or options.subcommands:
                raise ValueError(f"kubectl has no command {' '.join(positional)}")
            continue
        name, equals, _ = word.partition("=")
        names = [name] if word.startswith("--") else [f"-{letter}" for letter in name[1:]]
        if unknown := [each for each in names if each not in options.names]:
            raise ValueError(f"kubectl {' '.join(command)} has no option {unknown[0]}")
        if options.names[names[-1]] and not equals:
            words = words[1:]
    return positional


def _kubectl(invocation: Invocation) -> Iterator[str]:
    if invocation.arguments[:1] == ("ssa",):
        yield from _ssa_operator(Invocation(invocation.words[1:], invocation.folder))
        return
    try:
        kubectl_words(invocation.arguments)
    except ValueError as error:
        yield str(error)


def _make(invocation: Invocation) -> Iterator[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipes = dict(re.findall(r"^([a-z-]+):[^\n]*\n((?:\t[^\n]*\n)*)", makefile, re.MULTILINE))
    for word in invocation.arguments:
        variable, equals, value = word.partition("=")
        if not equals:
            if word not in recipes:
                yield f"the Makefile has no target {word}"
            continue
        target = next(each for each in invocation.arguments if "=" not in each)
        recipe = recipes.get(target, "")
        scripts = "".join(
            (ROOT / path).read_text(encoding="utf-8")
            for path in re.findall(r"\S+/\S+", recipe)
            if (ROOT / path).is_file()
        )
        if not re.search(rf"\$[({{]?{variable}\b", makefile + scripts):
            yield f"nothing reads {variable}"
        if variable == "ARGS":
            yield from _arguments_of_module(recipe, value)


def _arguments_of_module(recipe: str, arguments: str) -> Iterator[str]:
    """The options that the module which a recipe runs doesn't have."""
    for module in re.findall(r"python -m (\S+)", recipe):
        found = ROOT / module.replace(".", "/")
        source = (found / "__main__.py" if found.is_dir() else found.with_suffix(".py")).read_text(encoding="utf-8")
        for option in (word.partition("=")[0] for word in shlex.split(arguments) if word.startswith("--")):
            if f'"{option}"' not in source:
                yield f"{module} has no option {option}"


@functools.cache
def _project() -> Mapping[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@functools.cache
def _pip_help(command: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "pip", command, "--help"], capture_output=True, text=True, check=True
    ).stdout


def _pip(invocation: Invocation) -> Iterator[str]:
    command, *words = invocation.arguments
    for word in words:
        option = word.partition("=")[0]
        if word.startswith("-") and not re.search(rf"(^|\s){re.escape(option)}\b", _pip_help(command)):
            yield f"pip {command} has no option {option}"
        for extra in re.findall(r"\[(.+)\]", word):
            if extra not in _project()["project"]["optional-dependencies"]:
                yield f"there is no extra {extra}"


def _pytest(invocation: Invocation) -> Iterator[str]:
    options = dict(itertools.pairwise(invocation.arguments))
    for marker in re.findall(r"\w+", options.get("-m", "")):
        markers = _project()["tool"]["pytest"]["ini_options"]["markers"]
        if marker not in ("and", "or", "not") and not any(each.startswith(f"{marker}:") for each in markers):
            yield f"there is no marker {marker}"
    if "-k" in options:
        folders = [ROOT / word for word in invocation.arguments if (ROOT / word).is_dir()]
        tests = "".join(path.read_text(encoding="utf-8") for folder in folders for path in folder.rglob("test_*.py"))
        if not re.search(rf"def test_\w*{options['-k']}", tests):
            yield f"no test has {options['-k']} in its name"


def _python(invocation: Invocation) -> Iterator[str]:
    match invocation.arguments:
        case ["-m", module, *_] if importlib.util.find_spec(module) is not None:
            return
    yield "this is no module of the environment"


def _docker(invocation: Invocation) -> Iterator[str]:
    dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    for option, value in itertools.pairwise(invocation.arguments):
        if option == "--target" and not re.search(rf"^FROM .* AS {re.escape(value)}$", dockerfile, re.MULTILINE):
            yield f"the Dockerfile has no stage {value}"
        name = value.partition("=")[0]
        if option == "--build-arg" and not re.search(rf"^ARG {re.escape(name)}\b", dockerfile, re.MULTILINE):
            yield f"the Dockerfile has no argument {name}"


def _kustomize(invocation: Invocation) -> Iterator[str]:
    folder = ROOT / invocation.folder
    names = {
        name for path in folder.glob("*.yaml") for name in re.findall(r"image: (\S+)", path.read_text(encoding="utf-8"))
    }
    match invocation.arguments:
        case ["edit", "set", "image", image]:
            if image.partition("=")[0] not in names:
                yield f"{invocation.folder} has no image {image.partition('=')[0]}"
        case _:
            yield "the tests know only `kustomize edit set image`"


def _helm(invocation: Invocation) -> Iterator[str]:
    if "deploy/chart" not in invocation.arguments:
        return
    schema = json.loads((ROOT / "deploy" / "chart" / "values.schema.json").read_text(encoding="utf-8"))
    for option, setting in itertools.pairwise(invocation.arguments):
        if option == "--set":
            part = schema
            for name in setting.partition("=")[0].split("."):
                if name not in part.get("properties", {}):
                    yield f"the chart has no value {setting.partition('=')[0]}"
                    break
                part = part["properties"][name]


def _tilt(invocation: Invocation) -> Iterator[str]:
    defined = re.findall(r"config\.define_\w+\('(\w+)'", (ROOT / "Tiltfile").read_text(encoding="utf-8"))
    own = " ".join(invocation.arguments).partition(" -- ")[2].split()
    yield from (f"the Tiltfile has no option {word}" for word in own if word.partition("=")[0][2:] not in defined)


def _pip_audit(invocation: Invocation) -> Iterator[str]:
    used = (ROOT / ".github" / "workflows" / "ci.yaml").read_text(encoding="utf-8")
    commands = [step.get("run", "") for job in yaml.safe_load(used)["jobs"].values() for step in job.get("steps", ())]
    if not any(str(invocation) in " ".join(command.split()) for command in commands):
        yield "the workflow ci.yaml runs another command"


def _only_files(_: Invocation) -> Iterator[str]:
    """For a program that is not in the development environment: its files alone are looked at."""
    yield from ()


PROGRAMS: Mapping[str, Callable[[Invocation], Iterator[str]]] = {
    "docker": _docker,
    "helm": _helm,
    "kubectl": _kubectl,
    "kustomize": _kustomize,
    "make": _make,
    "pip": _pip,
    "pip-audit": _pip_audit,
    "pytest": _pytest,
    "python": _python,
    "ssa-operator": _ssa_operator,
    "tilt": _tilt,
    **dict.fromkeys(("base64", "curl", "date", "grep", "ln", "sha256sum", "tar"), _only_files),  # of every system
    **dict.fromkeys(("ctlptl", "debootstrap", "gh"), _only_files),  # not in the development environment
}
"""What checks the arguments of each program that pages start."""
