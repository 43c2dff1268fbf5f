"""Writes manifests as template text: data as YAML, with Jinja expressions in some places; and finds names of objects,
and hosts of Services and pods, in free text.

Promises:
- Text of a manifest that looks like Jinja is rendered literally. A value that is only an expression keeps the type of
  the expression's result.
- Only a whole name is one: it ends where a character is that no name holds. A name that is an ordinary word is one only
  within a host or an address.
- The host of a Service, or of a pod of a StatefulSet, follows with its namespace, and so do the names of their SRV
  records. Hosts of other Services stay. How the names of a workload's pods begin follows: `shop-web-.*`.
- The namespace of the manifests follows where a word says that it is one: `--namespace=web`, `kubectl -n web`; or
  where an object of the set, or of its name, is after it: `web/shop-cert`.
- A label of the set follows where a text selects by it: `app.kubernetes.io/instance=shop`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.objects.source_location import FieldPath
from ssa_operator.rendering.yaml.to_yaml import yaml_lines

_SYNTAX = re.compile(r"\{\{|\{%|\{#")
_ENDRAW = "endraw"
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)


def yaml_document(value: Any) -> str:
    """Data as a YAML document in block style."""
    return "".join(f"{line.text}\n" for line in yaml_lines(value))


def expression(path: tuple[str, ...]) -> str:
    """The Jinja expression of a field: `spec.db.host`, `spec["my-key"]`."""
    first, *rest = path
    return first + "".join(f".{part}" if _IDENTIFIER.fullmatch(part) else f"[{_jinja_string(part)}]" for part in rest)


def _jinja_string(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class TemplateText:
    """Makes the marks that stand for expressions within data, and writes data with marks as a template.

    A mark is a word of ASCII letters and digits that the given texts don't contain, so YAML needs no quotes for it.
    """

    def __init__(self, content: str) -> None:
        self._prefix = next(
            prefix for number in range(len(content) + 1) if (prefix := f"jinja{number}x") not in content
        )
        self._mark = re.compile(f"({self._prefix}[0-9]+x)")
        self._expressions: list[str] = []

    def mark(self, expression: str) -> str:
        """The mark that becomes `{{ expression }}`."""
        return self._make(f"{{{{ {expression} }}}}")

    def is_marked(self, text: str) -> bool:
        """Whether a text contains a mark."""
        return self._prefix in text

    def write(self, value: Any) -> str:
        """Data with marks as the text of a template."""
        text = yaml_document(self._escaped(value))
        return self._mark.sub(lambda found: self._expressions[self._number(found[0])], text)

    def line(self, value: Any, path: FieldPath) -> int:
        """The line of a field in the text of `write`."""
        escaped = tuple(self._escaped(part) for part in path)
        lines = enumerate(yaml_lines(self._escaped(value)), 1)
        return next((at for at, each in lines if (each.field or ())[: len(path)] == escaped), 1)

    def _make(self, text: str) -> str:
        if text not in self._expressions:
            self._expressions.append(text)
        return f"{self._prefix}{self._expressions.index(text)}x"

    def _number(self, mark: str) -> int:
        return int(mark.removeprefix(self._prefix).removesuffix("x"))

    def _escaped(self, value: Any) -> Any:
        """The data with marks in place of text that Jinja would parse."""
        if isinstance(value, Mapping):
            return {self._escaped(key): self._escaped(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._escaped(item) for item in value]
        return self._escaped_text(value) if isinstance(value, str) else value

    def _escaped_text(self, text: str) -> str:
        found = _SYNTAX.findall(text)
        # A raw block reads better, where nothing within it could end it or be an expression.
        if len(found) > 1 and set(found) == {"{{"} and _ENDRAW not in text and not self.is_marked(text):
            core = text.strip()
            before, _, after = text.partition(core)
            return f"{before}{self._make('{% raw %}')}{core}{self._make('{% endraw %}')}{after}"
        parts = self._mark.split(text)
        for at in range(0, len(parts), 2):
            part = _SYNTAX.sub(lambda match: self.mark(f'"{match[0]}"'), parts[at])
            if part.endswith("{") and at + 1 < len(parts):
                part = f"{part[:-1]}{self.mark(chr(34) + '{' + chr(34))}"
            parts[at] = part
        return "".join(parts)


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
