"""Recognizes what pages quote of the operator: messages that are composed of the texts of its source.

Promises:
- A quoted line is a text of the source, with each placeholder filled by a value or by another message. Other words are
  a mistake.
- Words of Kubernetes within a message, such as those of an API server that refuses a request, are listed with their
  origin.
- A value is a name, a number, a path or a quoted text, never words of prose.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping

from tests.docs.blocks.pages import Block
from tests.packaging.checkout import ROOT

HOLE = "\0"
"""Stands for a value in a text."""

KUBERNETES: Mapping[str, str] = {
    "Job has reached the specified backoff limit": "pkg/controller/job/job_controller.go",
    f"back-off {HOLE} restarting failed container": "pkg/kubelet/kuberuntime/kuberuntime_manager.go",
    f"{HOLE} is invalid: {HOLE}": "k8s.io/apimachinery/pkg/api/errors: NewInvalid",
    f"{HOLE} is forbidden: {HOLE}": "k8s.io/apimachinery/pkg/api/errors: NewForbidden",
    f"User {HOLE} cannot {HOLE} resource {HOLE} in API group {HOLE} in the namespace {HOLE}": (
        "k8s.io/apiserver/pkg/endpoints/handlers/responsewriters: ForbiddenMessage"
    ),
    f"create Pod {HOLE} in StatefulSet {HOLE} failed error: {HOLE}": (
        "pkg/controller/statefulset/stateful_pod_control.go"
    ),
    f"error looking up service account {HOLE}: {HOLE}": "plugin/pkg/admission/serviceaccount/admission.go",
    f"serviceaccount {HOLE} not found": "k8s.io/apimachinery/pkg/api/errors: NewNotFound",
    "Required value": "k8s.io/apimachinery/pkg/util/validation/field: ErrorTypeRequired",
    f"updates to statefulset spec for fields other than {HOLE} are forbidden": "pkg/apis/apps/validation/validation.go",
}
"""Messages of Kubernetes that pages quote, each with its place in the sources of Kubernetes."""

PLAIN_NAMES = frozenset(
    {
        "available",
        "created",
        "db",
        "get",
        "list",
        "main",
        "ok",
        "platform",
        "pods",
        "pull",
        "registry",
        "secrets",
        "watch",
    }
)
"""Names, verbs and states in quoted messages that look like words of prose."""

_SEPARATORS = (": ", "; ", ", ", " and ", " -> ", "  ")
_VALUE = re.compile(r"""(?!\.\.\.)(?=\S*\w)\S*[^a-z\s]\S*|"[^"]*"|'[^']*'|[=!<>]=""")


def mistakes(block: Block) -> list[str]:
    """The lines of a block that the operator doesn't print."""
    return [f"the operator prints no such message: {line}" for line in block.text.splitlines() if not is_message(line)]


@functools.cache
def is_message(text: str) -> bool:
    """Whether a text is composed of messages and values."""
    text = text.strip(" :")
    if _is_value(text) or _is_one_message(text):
        return True
    if any(_is_value(text[:at]) and _is_one_message(text[at + 1 :]) for at in _places(text, " ")):
        return True
    if text.endswith(")") and any(
        is_message(text[:at]) and is_message(text[at + 2 : -1]) for at in _places(text, " (")
    ):
        return True
    return any(
        is_message(text[:at]) and is_message(text[at + len(each) :])
        for each in _SEPARATORS
        for at in _places(text, each)
    )


def _is_one_message(text: str) -> bool:
    """Whether a text is a text of the source, with values or messages in it."""
    return text in _fixed_texts() or any(_matches(text, parts) for parts in _texts() if _may_match(text, parts))


def _is_value(text: str) -> bool:
    """Whether a text is a value, or a kind and a name."""
    words = re.findall(r"\"[^\"]*\"|\S+", text)
    return 0 < len(words) <= 3 and all(_VALUE.fullmatch(word) or word in PLAIN_NAMES for word in words)


def _places(text: str, part: str) -> Iterator[int]:
    """Where a text has a part, not at its ends."""
    at = text.find(part, 1)
    while 0 < at < len(text) - len(part):
        yield at
        at = text.find(part, at + 1)


def _may_match(text: str, parts: tuple[str, ...]) -> bool:
    return text.startswith(parts[0]) and text.endswith(parts[-1]) and all(part in text for part in parts)


def _matches(text: str, parts: tuple[str, ...]) -> bool:
    """Whether a text has these parts in order, with values or messages between them. The text begins with the first."""
    text, parts = text[len(parts[0]) :], parts[1:]
    if not parts:
        return text == ""
    if parts == ("",):
        return is_message(text)
    places = [at for at in [text.find(parts[0]), *_places(text, parts[0])] if at >= 0] if parts[0] else []
    return any(is_message(text[:at]) and _matches(text[at:], parts) for at in dict.fromkeys(places))


@functools.cache
def _fixed_texts() -> frozenset[str]:
    """The whole texts of at least two words. One word alone proves nothing."""
    texts = (*_source_texts(), *KUBERNETES)
    return frozenset(text.strip() for text in texts if HOLE not in text and " " in text.strip())


@functools.cache
def _texts() -> tuple[tuple[str, ...], ...]:
    """The texts with values, each as the parts between the values. A text that ends with a blank or begins with one is
    continued by a value; one that is a single word, such as ` and `, joins anything and is no message.
    """
    found = set()
    for text in (*_source_texts(), *KUBERNETES):
        if HOLE not in text and " " not in text.strip():
            continue
        parts = tuple(
            re.sub(f"{HOLE}+", HOLE, HOLE * text.startswith(" ") + text + HOLE * text.endswith((" ", "("))).split(HOLE)
        )
        if len(parts) > 1 and re.search(r"[a-z]{2}", "".join(parts)):
            found.add(parts)
    return tuple(sorted(found))


@functools.cache
def _source_texts() -> frozenset[str]:
    """The texts of the operator's source, with a hole for each value that is put in."""
    found = set()
    for path in (ROOT / "ssa_operator").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = [each.value if isinstance(each, ast.Constant) else HOLE for each in node.values]
                found.add("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
                found.add(re.sub(r"%[sdrg]", HOLE, node.value))
    return frozenset(text for text in found if len(text) > 1 and "\n" not in text.strip("\n"))
