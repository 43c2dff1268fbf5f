"""Writes completions for shells: each is one word of the command line, whatever characters its name has.

Promises:
- No shell runs or expands a part of a completion: not when it completes, and not when the user runs the line. Names
  come from folders of a repository, from a kubeconfig and from the API server.
- A word that the terminal would not show literally, for example with a control character, is not completed.

typer's own classes don't quote names: its script for zsh evaluates the printed names, and bash inserts them literally.
The scripts that users have installed stay valid.
"""

from __future__ import annotations

import re
import sys
from typing import Any

from typer._click.shell_completion import CompletionItem, ShellComplete, add_completion_class
from typer._completion_classes import BashComplete, FishComplete, PowerShellComplete, ZshComplete

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
"""A word that no shell changes."""


def register() -> None:
    """Make typer use this module's classes, once it has registered its own."""
    for names, shell in (("bash", _Bash), ("zsh", _Zsh), ("fish", _Fish), ("powershell pwsh", _PowerShell)):
        for name in names.split():
            add_completion_class(shell, name)


class _Printable(ShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return [each for each in super().get_completions(args, incomplete) if each.value.isprintable()]


class Kubectl(ShellComplete):
    """Completions without a shell, for kubectl. It passes them to any shell, so they are plain words."""

    name = "kubectl"
    source_template = ""

    def source_vars(self) -> dict[str, Any]:
        return {}

    def get_completion_args(self) -> tuple[list[str], str]:
        return sys.argv[1:-1], sys.argv[-1] if len(sys.argv) > 1 else ""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return [each for each in super().get_completions(args, incomplete) if _PLAIN.fullmatch(each.value)]

    def format_completion(self, item: CompletionItem) -> str:
        return str(item.value)


def quoted(word: str) -> str:
    """A word as bash and zsh read it. It holds neither a blank nor a wildcard: bash expands the names of files in what
    a completion prints, and both split it at blanks.
    """
    if _PLAIN.fullmatch(word):
        return word
    parts = ("".join(f"\\x{byte:02x}" for byte in each.encode()) if not each.isalnum() else each for each in word)
    return f"$'{''.join(parts)}'"


class _Bash(_Printable, BashComplete):
    def format_completion(self, item: CompletionItem) -> str:
        return quoted(item.value)


class _Zsh(_Printable, ZshComplete):
    """The installed script evaluates what is printed. zsh quotes a word that it inserts."""

    def format_completion(self, item: CompletionItem) -> str:
        """A word with its description, as `_describe` takes it."""
        value = item.value.replace("\\", "\\\\").replace(":", "\\:")
        return quoted(f"{value}:{item.help}" if item.help else value)

    def complete(self) -> str:
        words = [self.format_completion(each) for each in self.get_completions(*self.get_completion_args())]
        found = f"local -a ssa_operator_words; ssa_operator_words=({' '.join(words)})"
        return f"{found}; _describe -V word ssa_operator_words" if words else "_files"


class _Fish(_Printable, FishComplete):
    """fish quotes a word that it inserts."""


class _PowerShell(_Printable, PowerShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return [each for each in super().get_completions(args, incomplete) if ":::" not in each.value]

    def format_completion(self, item: CompletionItem) -> str:
        word = item.value
        # PowerShell takes typographic quotes for quotes.
        if not _PLAIN.fullmatch(word) or word.startswith("@"):
            word = "'" + re.sub("(['\u2018-\u201b])", r"\1\1", word) + "'"
        return super().format_completion(CompletionItem(word, item.type, item.help))
