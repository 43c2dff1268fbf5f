"""The command line as an application: help grouped by topic, completion, and errors of one line.

Promises:
- The help lists commands and options by topic, without rich, whose import takes half of the time of `--help`.
- The help and the errors have the name under which the user started the command: `ssa-operator` or `kubectl ssa`.
- The user can set every option of a command as the environment variable `SSA_OPERATOR_<NAME>`.
- `-h` and `help COMMAND` show a command's help, `help TOPIC` a part of the reference, and `version` the version.
- A command or an option of another tool leads to what does the same here.
- Every error is one line on standard error, never a traceback. `--debug` adds the traceback, without the messages of
  unexpected errors, because these may quote a Secret.
- If standard output or a file can't be written, for example because the disk is full, the line has the system's reason.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

# typer 0.28 contains its own copy of click, whose errors have no public name.
from typer._click.exceptions import NoArgsIsHelpError, NoSuchOption, UsageError
from typer.core import TyperCommand, TyperGroup

from ssa_operator.cli.topics import REFERENCE, TOPICS
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import UNWRITABLE, CommandError

if TYPE_CHECKING:
    from typer._click import Command as BareCommand
    from typer._click import Context, HelpFormatter

DEBUG = "SSA_OPERATOR_DEBUG"
"""Whether an error prints its traceback, as with `--debug`."""

WHOLE = 1000
"""A length that no summary of a command has: the help wraps a summary, and cuts none."""

INTERRUPTED = 130
"""The exit code after the user interrupted a command, as a shell reports it for SIGINT."""

_UNWRITABLE_FILES = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS})
"""The errors of a disk that is full or read-only."""

PLUGIN = "kubectl-ssa"
"""The name of the program that kubectl starts for `kubectl ssa`."""

OPTIONS: Mapping[str, Sequence[str]] = {
    "Templates": ("templates", "crds", "values", "revision", "examples"),
    "Cluster": ("namespace", "context", "kubeconfig", "name"),
    "Output": ("output", "watch", "as_applied", "log_format", "log_level"),
}
"""The topics of options, and the options of each by parameter. Other options come first, and `--help` last."""


def program() -> str:
    """The name under which the user started the command."""
    return "kubectl ssa" if Path(sys.argv[0]).name.removesuffix(".exe") == PLUGIN else "ssa-operator"


Function = TypeVar("Function", bound=Callable[..., Any])


class Group(TyperGroup):
    """A command with subcommands."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        match args:
            case ["help", topic] if ctx.parent is None and topic in REFERENCE:
                from ssa_operator.cli import reference

                streams.data(reference.text(topic, self))
                raise typer.Exit
            case ["help", *words]:
                args = [*words, "--help"]
            case ["version", *words] if ctx.parent is None:
                args = ["--version", *words]
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, BareCommand | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            from ssa_operator.cli.other_words import command_hint

            hint = command_hint(str(ctx.info_name) if ctx.parent is not None else "", args[0])
            if hint is not None:
                error.message = f"No such command {args[0]!r}; {hint}."
            raise

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        _format_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        found = {name: self.commands[name] for name in self.list_commands(ctx) if not self.commands[name].hidden}
        width = max(map(len, found), default=0)
        topics = TOPICS if ctx.parent is None else {}
        for topic, names in _by_topic(topics, found, "Other commands" if topics else "Commands", last=True):
            rows = [(name.ljust(width), found[name].get_short_help_str(WHOLE)) for name in names]
            with formatter.section(topic):
                formatter.write_dl(rows)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        _format_epilog(self, ctx, formatter)


class Command(TyperCommand):
    """A command without subcommands."""

    def __init__(self, name: str | None, **settings: Any) -> None:
        super().__init__(name, **settings)
        for each in self.params:
            long = next((option for option in each.opts if option.startswith("--")), None)
            if long is not None:
                each.envvar = f"SSA_OPERATOR_{long.removeprefix('--').replace('-', '_').upper()}"

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except UsageError as error:
            error.ctx = error.ctx or ctx  # click gives some errors none, for example about a flag with a value
            raise

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        _format_parameters(self, ctx, formatter)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        _format_epilog(self, ctx, formatter)


class Application(typer.Typer):
    """A typer application whose commands have this module's help and completion."""

    def __init__(self, **settings: Any) -> None:
        defaults: dict[str, Any] = {
            "cls": Group,
            "no_args_is_help": True,
            "add_completion": False,
            "pretty_exceptions_enable": False,
            "rich_markup_mode": None,
            "context_settings": {"help_option_names": ["-h", "--help"]},
        }
        super().__init__(**defaults | settings)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any
    ) -> Callable[[Function], Function]:
        return super().command(name, cls=cls or Command, **settings)


def _by_topic(
    topics: Mapping[str, Sequence[str]], found: Iterable[str], others: str, *, last: bool
) -> Iterator[tuple[str, list[str]]]:
    """The names that were found, by topic; those without a topic come first, or `last`, as `others`."""
    found = list(found)
    grouped = [(topic, [name for name in names if name in found]) for topic, names in topics.items()]
    rest = (others, [name for name in found if not any(name in names for names in topics.values())])
    yield from ((topic, names) for topic, names in ([*grouped, rest] if last else [rest, *grouped]) if names)


def _format_parameters(command: BareCommand, ctx: Context, formatter: HelpFormatter) -> None:
    """Write the arguments, and the options by topic."""
    shown = [(each, record) for each in command.get_params(ctx) if (record := each.get_help_record(ctx)) is not None]
    arguments = [record for each, record in shown if each.param_type_name == "argument"]
    options = {
        str(each.name): _without_variable(record) for each, record in shown if each.param_type_name != "argument"
    }
    if arguments:
        with formatter.section("Arguments"):
            formatter.write_dl(arguments)
    for topic, names in _by_topic(OPTIONS, options, "Options", last=False):
        with formatter.section(topic):
            formatter.write_dl([options[name] for name in names])


_VARIABLE = re.compile(r"  \[env var: SSA_OPERATOR_\w+\]|env var: SSA_OPERATOR_\w+; ")


def _without_variable(record: tuple[str, str]) -> tuple[str, str]:
    """The help of an option without its environment variable: the end of the help says how all of them are named."""
    return record[0], _VARIABLE.sub("", record[1])


def _format_epilog(command: BareCommand, ctx: Context, formatter: HelpFormatter) -> None:
    """Write how variables are named, and the examples with the name under which the user started the command."""
    with_variable = [each for each in command.get_params(ctx) if getattr(each, "envvar", None)]
    for option in with_variable[:1]:
        name = next(each for each in option.opts if each.startswith("--"))
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(f"Each option is an environment variable, too: {name} is {option.envvar}.")
    if command.epilog:
        name = ctx.find_root().info_name or "ssa-operator"
        formatter.write_paragraph()
        with formatter.indentation():
            for line in command.epilog.splitlines():
                formatter.write_text(line.replace("ssa-operator ", f"{name} "))


def run(application: typer.Typer) -> None:
    """Run the command line of this process, and end the process with the command's exit code."""
    name = program()
    streams.guard_standard_output()
    try:
        try:
            root = typer.main.get_command(application)
            if any(each.endswith("_COMPLETE") for each in os.environ):
                from ssa_operator.cli import shell_completion

                shell_completion.register()
            code = root(prog_name=name, standalone_mode=False)
        finally:
            streams.flush()
    except CommandError as error:
        _fail(f"{name}: {error}" if error.code != INTERRUPTED else "", error.code, error)
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else name
        _fail(f"{command}: {_usage(error)} See {command} --help.", error.exit_code, error)
    except typer.TyperException as error:
        _fail(f"{name}: {_one_line(error.format_message())}", error.exit_code, error)
    except typer.Abort:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        sys.exit(1)  # click ends a command in the same way if its output is no longer read
    except Exception as error:  # noqa: BLE001 - a bug is one line, too
        if isinstance(error, OSError) and error.errno in _UNWRITABLE_FILES:
            file = f"can't write {error.filename}: " if error.filename else ""
            _fail(f"{name}: {file}{error.strerror}", UNWRITABLE, error)
        _fail(f"{name}: unexpected {type(error).__name__} at {_place(error)}; --debug shows the traceback", 1, error)
    sys.exit(code if isinstance(code, int) else 0)


def complete(application: typer.Typer) -> None:
    """Print the completions of the arguments of this process, the last one being incomplete, and the directive that
    kubectl expects after them (https://kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins/).
    """
    from ssa_operator.cli.shell_completion import Kubectl

    command = typer.main.get_command(application)
    found = Kubectl(command, {}, "kubectl ssa", "").complete()
    streams.lines(f"{found}\n:4" if found else ":4")


def _one_line(message: str) -> str:
    text = " ".join(message.split()).removesuffix(".")
    return text[:1].lower() + text[1:]


def _usage(error: UsageError) -> str:
    """The message of a usage error as sentences, with the suggestion that it has."""
    message = _one_line(error.format_message())
    if isinstance(error, NoSuchOption):
        message = f"no such option {error.option_name}" + (f"; {hint}" if (hint := _option_hint(error)) else "")
    message = message.replace(". Did you mean", "; did you mean")
    return message if message.endswith("?") else f"{message}."


def _option_hint(error: NoSuchOption) -> str | None:
    """What to write instead of an unknown option: by its meaning in other tools, and then by its spelling."""
    from ssa_operator.cli.other_words import option_hint
    from ssa_operator.objects.messages import did_you_mean

    known = [name for each in (error.ctx.command.params if error.ctx is not None else ()) for name in each.opts]
    return option_hint(error.option_name, known) or did_you_mean(error.option_name, known) or None


def _place(error: BaseException) -> str:
    """The file and line at which an error was raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else "an unknown line"
    )


def _fail(message: str, code: int, error: BaseException) -> None:
    """End the process with a message; with `--debug` the traceback comes before it."""
    try:
        if _debug():
            _write_traceback(error)
        if message:
            streams.error(message)
    finally:
        sys.exit(code)  # even if standard error can't be written


def _debug() -> bool:
    return os.environ.get(DEBUG, "").lower() in ("1", "true", "t", "yes", "y", "on")


def _write_traceback(error: BaseException | None) -> None:
    """Write the frames and types of an error and its causes. The message of an unexpected error may quote a Secret, so
    it is left out.
    """
    import traceback

    while error is not None:
        shown = str(error) if isinstance(error, CommandError | typer.TyperException) else "(message not shown)"
        frames = "".join(traceback.format_tb(error.__traceback__))
        streams.error(f"Traceback (most recent call last):\n{frames}{type(error).__name__}: {shown}\n\n")
        error = error.__cause__ or error.__context__
