"""Finds names of objects, and hosts of Services and pods, in free text.

Promises:
- Only a whole name is one: it ends where a character is that no name holds.
- The host of a Service, or of a pod of a StatefulSet, follows with its namespace. Hosts of other Services stay.
- A name that is an ordinary word is one only within a host or an address.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(r"(system:serviceaccount:)([a-z0-9-]+):([a-z0-9.-]+)|[A-Za-z0-9._-]+", re.ASCII)
"""The name of a service account for roles, or the longest run of characters that names hold."""

_VARIABLE = re.compile(r"[A-Za-z0-9_]*", re.ASCII)
_POD = re.compile(r"(.+)-([0-9]+)", re.ASCII)


@dataclass(slots=True, kw_only=True)
class NamedTexts:
    """Replaces the names of renamed objects in texts."""

    names: Mapping[str, str]
    """The new name of each object by its old one."""
    services: frozenset[str]
    """The names of Services in the namespace."""
    sets: frozenset[str]
    """The names of StatefulSets, and of them after those of their claims: `data-db`."""
    accounts: frozenset[str]
    """The names of service accounts in the namespace."""
    namespace: str
    """The namespace of the manifests."""
    namespace_mark: str
    """What takes its place."""
    ordinary: Callable[[str], bool]
    """Whether a name is an ordinary word, too."""
    kept: set[str] = field(default_factory=set)
    """Names that the last text has, and that stayed."""

    def replaced(self, text: str) -> str:
        """The text with new names."""
        self.kept = set()
        return _TOKEN.sub(lambda found: self._account(found) if found[1] else self._token(found, text), text)

    def _account(self, found: re.Match[str]) -> str:
        if found[2] != self.namespace or found[3] not in self.accounts:
            return found[0]
        return f"{found[1]}{self.namespace_mark}:{self.names.get(found[3], found[3])}"

    def _token(self, found: re.Match[str], text: str) -> str:
        token = found[0]
        if text[: found.start()].endswith("$") and (variable := _VARIABLE.match(token)) is not None and variable[0]:
            # A variable of a shell ends before the host of a Service: $i.db.
            rest = token[variable.end() :]
            return variable[0] + _TOKEN.sub(lambda inner: self._token(inner, rest), rest)
        core = token.strip(".")
        before, _, after = token.partition(core) if core else ("", "", "")
        if not core:
            return token
        if core in self.names:
            if self.ordinary(core) and not _is_address(text, found):
                self.kept.add(core)
                return token
            return f"{before}{self.names[core]}{after}"
        if core.endswith("-") and core[:-1] in self.sets:
            # The ordinal comes from a variable: db-$i, db-%d.
            return f"{before}{self.names_of_pods(core[:-1])}-{after}"
        return f"{before}{self._host(core)}{after}"

    def names_of_pods(self, name: str) -> str:
        """The new name of a StatefulSet, or of its claims."""
        if name in self.names:
            return self.names[name]
        owner = max((each for each in self.names if name.endswith(f"-{each}")), key=len)
        return f"{name.removesuffix(owner)}{self.names[owner]}"

    def _host(self, host: str) -> str:
        pod, dot, rest = host.partition(".")
        is_pod = (found := _POD.fullmatch(pod)) is not None and found[1] in self.sets
        if is_pod and found is not None:
            renamed = f"{self.names_of_pods(found[1])}-{found[2]}"
            if not dot:
                return renamed
            below = self.names.get(rest) if rest in self.services else self._service(rest)
            return host if below is None else f"{renamed}.{below}"
        return self._service(host) or host

    def _service(self, host: str) -> str | None:
        """The new host of a Service of the set; None for another one."""
        name, _, rest = host.partition(".")
        if name not in self.services or not rest:
            return None
        new = self.names.get(name, name)
        if rest == self.namespace or rest.startswith(f"{self.namespace}.svc"):
            return f"{new}.{self.namespace_mark}{rest.removeprefix(self.namespace)}"
        return f"{new}.{rest}" if rest == "svc" or rest.startswith("svc.") else None


def _is_address(text: str, found: re.Match[str]) -> bool:
    """Whether a word is the host of an address: after `://` or `@`, or before a port."""
    before, after = text[: found.start()], text[found.end() :]
    return before.endswith(("://", "@")) or re.match(r":[0-9]+(?![0-9A-Za-z])", after) is not None
