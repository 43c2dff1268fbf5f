"""Writes completions for shells: each is one word of the command line, whatever characters its name has.

Promises:
- No shell runs or expands a part of a completion: not when it completes, and not when the user runs the line. Names
  come from folders of a repository, from a kubeconfig and from the API server.
- A word that the terminal would not show literally, for example with a control character, is not completed.
- Kinds are first those of the template folders, which need no cluster, and then those that the cluster serves.
- Without a cluster, and after `TIMEOUT` seconds, the cluster completes nothing. A completion never prints an error.

typer's own classes don't quote names: its script for zsh evaluates the printed names, and bash inserts them literally.
The scripts that users have installed stay valid.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer._click.shell_completion import CompletionItem, ShellComplete, add_completion_class
from typer._completion_classes import BashComplete, FishComplete, PowerShellComplete, ZshComplete

if TYPE_CHECKING:
    from typer._click import Context, Parameter

    from ssa_operator.kube.api.client import Client
    from ssa_operator.kube.api.discovery import RESTMapper


_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
"""A word that no shell changes."""


def register() -> None:
    """Make typer use this module's classes."""
    for name, shell in (
        ("bash", _Bash),
        ("zsh", _Zsh),
        ("fish", _Fish),
        ("powershell", _PowerShell),
        ("pwsh", _PowerShell),
    ):
        add_completion_class(shell, name)


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


def _shown(items: Iterable[CompletionItem]) -> list[CompletionItem]:
    return [each for each in items if each.value.isprintable()]


def quoted(word: str) -> str:
    """A word as bash and zsh read it. It holds neither a blank nor a wildcard: bash expands the names of files in what
    a completion prints, and both split it at blanks.
    """
    if _PLAIN.fullmatch(word):
        return word
    parts = ("".join(f"\\x{byte:02x}" for byte in each.encode()) if not each.isalnum() else each for each in word)
    return f"$'{''.join(parts)}'"


class _Bash(BashComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return _shown(super().get_completions(args, incomplete))

    def format_completion(self, item: CompletionItem) -> str:
        return quoted(item.value)


class _Zsh(ZshComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return _shown(super().get_completions(args, incomplete))

    def complete(self) -> str:
        """Commands that the installed script evaluates. zsh quotes a word that it inserts."""
        found = self.get_completions(*self.get_completion_args())
        if not found:
            return "_files"
        words = [_described(each) for each in found]
        return (
            f"local -a ssa_operator_words; ssa_operator_words=({' '.join(words)}); _describe -V word ssa_operator_words"
        )


def _described(item: CompletionItem) -> str:
    """A word with its description, as zsh's `_describe` takes it, quoted."""
    value = item.value.replace("\\", "\\\\").replace(":", "\\:")
    return quoted(f"{value}:{item.help}" if item.help else value)


class _Fish(FishComplete):
    """fish quotes a word that it inserts."""

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return _shown(super().get_completions(args, incomplete))


class _PowerShell(PowerShellComplete):
    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        return [each for each in _shown(super().get_completions(args, incomplete)) if ":::" not in each.value]

    def format_completion(self, item: CompletionItem) -> str:
        word = item.value
        # PowerShell takes typographic quotes for quotes.
        if not _PLAIN.fullmatch(word) or word.startswith("@"):
            word = "'" + re.sub("(['\u2018-\u201b])", r"\1\1", word) + "'"
        return super().format_completion(CompletionItem(word, item.type, item.help))


TIMEOUT = 3.0
"""Seconds that the API server has to answer."""


def objects(ctx: Context, parameter: Parameter, incomplete: str) -> list[str]:
    """`KIND`, `KIND/NAME`, and `NAME` after a kind."""
    kind, slash, start = incomplete.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in _names(ctx, kind) if name.startswith(start)]
    given = [str(each) for each in _values(ctx.params.get(str(parameter.name)))]
    if given and "/" not in given[0]:
        return [name for name in _names(ctx, given[0]) if name.startswith(incomplete)]
    folders = _folders(ctx)
    return _starting(incomplete, folders) or _starting(incomplete, _from_cluster(ctx, _kinds))


def namespaces(ctx: Context, _parameter: Parameter, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""
    return [name for name in _names(ctx, "namespaces") if name.startswith(incomplete)]


def contexts(ctx: Context, _parameter: Parameter, incomplete: str) -> list[str]:
    """The contexts of the kubeconfig."""
    import os

    from ssa_operator.kube.auth.credentials import CredentialsError
    from ssa_operator.kube.auth.kubeconfig import contexts

    paths = ctx.params.get("kubeconfig") or os.environ.get("KUBECONFIG") or "~/.kube/config"
    with contextlib.suppress(CredentialsError):
        return _starting(incomplete, contexts(paths))
    return []


def _values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else [value] if value else []


def _starting(incomplete: str, words: Iterable[str]) -> list[str]:
    return sorted({word for word in words if word.startswith(incomplete)})


def _folders(ctx: Context) -> list[str]:
    """The names of the template folders."""
    roots = [Path(each) for each in _values(ctx.params.get("templates"))] or [Path("templates")]
    found = [folder for root in roots if root.is_dir() for folder in root.iterdir() if folder.is_dir()]
    return [folder.name for folder in found if not folder.name.startswith(("_", "."))]


def _names(ctx: Context, kind: str) -> list[str]:
    """The names of a kind's objects, in the namespace that the user chose."""
    chosen = _values(ctx.params.get("namespace"))
    namespace = str(chosen[0]) if chosen else ""

    async def names(client: Client, mapper: RESTMapper) -> list[str]:
        from ssa_operator.tools.command_target import list_names, resolve_kind

        resource = await resolve_kind(mapper, kind, _folders(ctx))
        found = await list_names(client, resource, namespace or client.credentials.namespace)
        return [name for _, name in found]

    return sorted(set(_from_cluster(ctx, names)))


async def _kinds(_client: Client, mapper: RESTMapper) -> list[str]:
    listed = [each for each in await mapper.resources() if "list" in each.verbs]
    return [word for each in listed for word in (each.singular or each.kind.lower(), each.name)]


def _from_cluster(ctx: Context, read: Callable[[Client, RESTMapper], Awaitable[list[str]]]) -> list[str]:
    """The result of `read`, empty if the cluster can't be read in time."""
    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.operator.process.connection import Target, connect

    async def work() -> list[str]:
        target = Target(kubeconfig=ctx.params.get("kubeconfig"), context=ctx.params.get("context"))
        async with asyncio.timeout(TIMEOUT), connect(target) as client:
            return await read(client, RESTMapper(client))

    try:
        return asyncio.run(work())
    except Exception:  # noqa: BLE001 - an error must not appear in the line that the user types
        return []
