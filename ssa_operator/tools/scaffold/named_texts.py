"""Finds names of objects, and hosts of Services and pods, in free text.

Promises:
- Only a whole name is one: it ends where a character is that no name holds.
- The host of a Service, or of a pod of a StatefulSet, follows with its namespace, and so do the names of their SRV
  records. Hosts of other Services stay.
- A name that is an ordinary word is one only within a host or an address.
- The namespace of the manifests follows where a word says that it is one: `--namespace=web`, `kubectl -n web`; or
  where an object of the set, or of its name, is after it: `web/shop-cert`.
- A label of the set follows where a text selects by it: `app.kubernetes.io/instance=shop`.
- How the names of a workload's pods begin follows: `shop-web-.*`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(r"(system:serviceaccount:)([a-z0-9-]+):([a-z0-9.-]+)|[A-Za-z0-9._-]+", re.ASCII)
"""The name of a service account for roles, or the longest run of characters that names hold."""

_SRV = re.compile(r"(?:_[A-Za-z0-9-]+\.)+", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z0-9_]*", re.ASCII)
_POD = re.compile(r"(.+)-([0-9]+)", re.ASCII)
_NAMESPACE = r"""((?i:namespaces?)["']?(?:[ \t]?[=:][ \t]?|[ \t/])["']?){0}(?![\w.-])"""
_SHORT_OPTION = r"((?<![\w-])-n[ =]){0}(?![\w.-])"
_BEFORE_NAME = r"(?<![\w./@-]){0}/([A-Za-z0-9._-]+)"
_LABEL = re.compile(
    r"""(?<![\w./-])([A-Za-z0-9][\w./-]*)(["']?(?:==?|[ ]?:[ ])["']?)([A-Za-z0-9][\w.-]*+)(?!=)""", re.ASCII
)
_NAMESPACE_WORD = re.compile(r"(?i:namespaces?)$")
_CLIENTS = ("kubectl", "helm")
"""Programs whose option -n names a namespace."""


@dataclass(slots=True, kw_only=True)
class NamedTexts:
    """Replaces the names of renamed objects in texts."""

    names: Mapping[str, str]
    """The new name of each object by its old one."""
    services: frozenset[str]
    """The names of Services in the namespace."""
    sets: frozenset[str]
    """The names of StatefulSets, and of them after those of their claims: `data-db`."""
    workloads: frozenset[str]
    """The names of all workloads: their pods' names begin with them."""
    label: Callable[[str, str], str]
    """The new value of a label of the set, the value itself for any other."""
    accounts: frozenset[str]
    """The names of service accounts in the namespace."""
    namespace: str
    """The namespace of the manifests."""
    namespace_mark: str
    """What takes its place."""
    ordinary: Callable[[str], bool]
    """Whether a name is an ordinary word, too."""
    of_instance: Callable[[str], bool]
    """Whether a name that no object has is one of the instance all the same."""
    kept: set[str] = field(default_factory=set)
    """Names that the last text has, and that stayed."""
    _namespaces: tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]] = field(init=False)

    def __post_init__(self) -> None:
        name = re.escape(self.namespace)
        self._namespaces = (
            re.compile(_NAMESPACE.format(name)),
            re.compile(_SHORT_OPTION.format(name)),
            re.compile(_BEFORE_NAME.format(name)),
        )

    def replaced(self, text: str, before: str = "") -> str:
        """The text with new names. `before` is the field, the variable or the argument that names its value."""
        self.kept = set()
        if text == self.namespace and _NAMESPACE_WORD.search(before):
            return self.namespace_mark
        after_word, after_option, before_name = self._namespaces
        text = _LABEL.sub(lambda found: f"{found[1]}{found[2]}{self.label(found[1], found[3])}", text)
        text = before_name.sub(
            lambda found: f"{self.namespace_mark}/{found[1]}" if self._is_own(found[1].strip(".")) else found[0], text
        )
        text = after_word.sub(lambda found: f"{found[1]}{self.namespace_mark}", text)
        if any(each in text for each in _CLIENTS):
            text = after_option.sub(lambda found: f"{found[1]}{self.namespace_mark}", text)
        return _TOKEN.sub(lambda found: self._account(found) if found[1] else self._token(found, text), text)

    def _is_own(self, name: str) -> bool:
        return name in self.names or self.of_instance(name)

    def _account(self, found: re.Match[str]) -> str:
        name = found[3]
        if found[2] != self.namespace or name not in {*self.accounts, "default"}:
            return found[0]
        return f"{found[1]}{self.namespace_mark}:{self.names[name] if name in self.accounts else name}"

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
        if core.endswith("-") and core[:-1] in self.sets | self.workloads:
            # The rest comes from a variable or a pattern: db-$i, db-%d, web-.*.
            return f"{before}{self.names_of_pods(core[:-1])}-{after}"
        return f"{before}{self._host(core)}{after}"

    def pod(self, name: str) -> str:
        """The new name of a pod of a StatefulSet, or of its claim; the name itself for any other."""
        found = _POD.fullmatch(name)
        is_pod = found is not None and found[1] in self.sets
        return f"{self.names_of_pods(found[1])}-{found[2]}" if found is not None and is_pod else name

    def names_of_pods(self, name: str) -> str:
        """The new name of a StatefulSet, or of its claims."""
        if name in self.names:
            return self.names[name]
        owner = max((each for each in self.names if name.endswith(f"-{each}")), key=len)
        return f"{name.removesuffix(owner)}{self.names[owner]}"

    def _host(self, host: str) -> str:
        if (labels := _SRV.match(host)) is not None:
            target = host[labels.end() :]
            return labels[0] + (self.names[target] if target in self.services else self._host(target))
        pod, dot, rest = host.partition(".")
        renamed = self.pod(pod)
        if renamed != pod:
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
