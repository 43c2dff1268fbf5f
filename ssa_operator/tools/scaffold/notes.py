"""Notes of `ssa-operator new` for the author, as sentences.

Promises:
- What is said of several manifests is one sentence that names them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


class Notes:
    """Sentences about manifests; what is said of several is one sentence."""

    def __init__(self) -> None:
        self._titles: dict[str, dict[str, None]] = {}

    def add(self, text: str, *bodies: Mapping[str, Any]) -> None:
        """Say something of manifests, if there are any: "is left out", "without labels"."""
        if bodies:
            self._titles.setdefault(text, {}).update(dict.fromkeys(map(title, bodies)))

    def say(self, sentence: str) -> None:
        """Add a sentence that is about no manifest."""
        self._titles[sentence] = {}

    def __iter__(self) -> Iterator[str]:
        for text, found in self._titles.items():
            if not found:
                yield text
            elif text.startswith("is "):
                yield f"{_listed(found)} {'are' if len(found) > 1 else 'is'} {text.removeprefix('is ')}"
            else:
                yield f"{_listed(found)}: {text}"


def title(body: Mapping[str, Any]) -> str:
    """A manifest in a note: `Deployment web`."""
    return f"{body['kind']} {body['metadata']['name']}"


def _listed(titles: Iterable[str]) -> str:
    """The names by kind: `Deployment web, db and Service web`."""
    kinds: dict[str, list[str]] = {}
    for each in titles:
        kind, _, name = each.partition(" ")
        kinds.setdefault(kind, []).append(name)
    parts = [f"{kind} {', '.join(names)}" for kind, names in kinds.items()]
    return " and ".join((", ".join(parts[:-1]), parts[-1])) if len(parts) > 1 else parts[0]
