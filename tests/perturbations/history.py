"""What the objects of a story are after each of its steps, so that two runs of a story can be compared.

Promises:
- A value that the API server, a template or the operator draws (a uid, a generated password, a hash of one) differs
  between two runs. It is compared by the step since which it is the same: one that is lost, and an object that is
  recreated, differ from a run in which they stay.
- Everything else is compared literally: children, the operator's annotations and finalizers, what is left over. The
  order of owners means nothing.
- What Kubernetes' own controllers write, and what only counts writes, is not compared; nor which IP address is free.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ssa_operator.reconcile.parent_records.rules import APPLIED_ANNOTATION
from ssa_operator.reconcile.parent_records.rules import MANAGER as PARENT_MANAGER
from ssa_operator.schema.operator_fields import APPLIED_FIELD
from tests.operator.harness import ready_condition

Body = dict[str, Any]

Key = tuple[str, str]
"""A resource and the name of an object."""

Leaf = tuple[Key, str]
"""An object, and the path of one of its values."""

Values = Mapping[Leaf, object]

KEPT = "ssa-operator-kept-"
"""The prefix of the operator's own Secrets, which keep generated values during a recreation."""

_METADATA = ("annotations", "finalizers", "labels", "ownerReferences", "uid")
_ADDRESS = re.compile(r"\d+(\.\d+){3}")
_IGNORED = re.compile(
    r"/metadata/annotations/(deployment\.kubernetes\.io/|kubectl\.kubernetes\.io/|ssa-operator\.dev/owners$)"
    r"|^/spec/nodeName$"
)
"""The record of a shared object may name an owner that is gone. Stories tell who the owners are."""
_REVISION = "/metadata/annotations/ssa-operator.dev/revision"
"""The record of what a parent runs is compared without the revision at which it was Ready before: that depends on what
an operator saw in between.
"""


def values_of(key: Key, body: Body, namespace: str) -> Iterator[tuple[Leaf, object]]:
    """The values of an object that runs are compared by. The name of the run's namespace is `NS` in them."""
    metadata = {name: body["metadata"][name] for name in _METADATA if name in body["metadata"]}
    if "ownerReferences" in metadata:
        metadata["ownerReferences"] = {each["name"]: each for each in metadata["ownerReferences"]}
    metadata["managers"] = sorted(
        {entry["manager"] for entry in body["metadata"].get("managedFields", ()) if "ssa-operator" in entry["manager"]}
    )
    if "deletionTimestamp" in body["metadata"]:
        metadata["deleting"] = True
    compared = {name: value for name, value in body.items() if name not in ("metadata", "status", "apiVersion", "kind")}
    if "resources" in body.get("status", {}):
        compared["status"] = _parent_status(body)
        # What was applied stands in the status, or in the annotation: that depends on what the operator knew.
        in_status = compared["status"].pop(APPLIED_FIELD, None)
        annotations = {**metadata.get("annotations", {})}
        compared["applied"] = annotations.pop(APPLIED_ANNOTATION, in_status) is not None
        metadata["annotations"] = annotations
        metadata["managers"] = [each for each in metadata["managers"] if each != PARENT_MANAGER]
    if key[0] == "namespaces":
        compared.pop("spec", None)
    for path, value in _leaves({**compared, "metadata": metadata}):
        if not _IGNORED.search(path):
            shown = json.loads(value)["revision"] if path == _REVISION and isinstance(value, str) else value
            yield (key, path.replace(namespace, "NS")), _comparable(shown, namespace)


def _comparable(value: object, namespace: str) -> object:
    """The value without the name of the run's namespace, and without the IP address that was free."""
    if not isinstance(value, str):
        return value
    return "ADDRESS" if _ADDRESS.fullmatch(value) else value.replace(namespace, "NS")


def _parent_status(body: Body) -> Body:
    """The status of a parent without times and sentences."""
    status = {name: value for name, value in body["status"].items() if name not in ("conditions", "observedGeneration")}
    ready = ready_condition(body)
    status["ready"] = f"{ready.get('status')} {ready.get('reason')}"
    status["resources"] = {
        f"{each['kind']} {each['name']}": {"state": each["state"], "uid": each.get("uid", "")}
        for each in status["resources"]
    }
    return status


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}/{name}")
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}/{index}")
    else:
        yield path, value


def normalized(name: str, namespace: str) -> str:
    """A name as it is in every run of a story."""
    return re.sub(rf"{KEPT}[a-z0-9-]+", KEPT, name.replace(namespace, "NS"))


@dataclass(slots=True)
class History:
    """The values after each step of one run."""

    namespace: str
    steps: list[Values] = field(default_factory=list)

    def values(self, objects: Mapping[Key, Body]) -> Values:
        """The values of these objects."""
        return {
            leaf: value
            for (resource, name), body in objects.items()
            for leaf, value in values_of((resource, normalized(name, self.namespace)), body, self.namespace)
        }


@dataclass(frozen=True, slots=True)
class Expectation:
    """The history that each run of a story has to have, from two runs that nothing perturbed."""

    steps: Sequence[Values]
    drawn: frozenset[Leaf]
    """The values that differ between two runs."""
    undecided: frozenset[Leaf]
    """The values that only one of both runs has."""

    @classmethod
    def of(cls, one: History, other: History) -> Expectation:
        """Raises AssertionError if both runs don't have the same objects."""
        drawn, undecided = set[Leaf](), set[Leaf]()
        for number, (mine, theirs) in enumerate(zip(one.steps, other.steps, strict=True)):
            keys, other_keys = ({key for key, _ in values} for values in (mine, theirs))
            assert keys == other_keys, f"two runs differ after step {number}: {sorted(keys ^ other_keys)}"
            undecided |= mine.keys() ^ theirs.keys()
            drawn |= {leaf for leaf in mine.keys() & theirs.keys() if mine[leaf] != theirs[leaf]}
        return cls(one.steps, frozenset(drawn), frozenset(undecided))

    def differences(self, earlier: Sequence[Values], now: Values) -> list[Difference]:
        """How a run differs whose former steps had these values, and that has these values now."""
        step = len(earlier)
        wanted, found = self._comparable(self.steps[: step + 1]), self._comparable([*earlier, now])
        keys, found_keys = {key for key, _ in wanted}, {key for key, _ in found}
        differences = [Difference(key, "", "is missing") for key in sorted(keys - found_keys)]
        differences += [Difference(key, "", "is left over") for key in sorted(found_keys - keys)]
        for key, path in sorted(wanted.keys() | found.keys()):
            if key in keys and key in found_keys and wanted.get((key, path)) != found.get((key, path)):
                value, instead = (values.get((key, path), "absent") for values in (found, wanted))
                differences.append(Difference(key, path, f"is {value!r} instead of {instead!r}"))
        return differences

    def changes(self, before: Values, now: Values) -> list[Difference]:
        """How the values that each run draws differ between two times of one step. They have to be the same."""
        return [
            Difference(key, path, "is another one than before")
            for key, path in sorted(self.drawn - self.undecided)
            if before.get((key, path)) != now.get((key, path))
        ]

    def _comparable(self, steps: Sequence[Values]) -> dict[Leaf, object]:
        """The values of the last step, those that are drawn as the step since which they are the same."""
        last = steps[-1]
        return {
            leaf: f"the value since step {_since(leaf, steps)}" if leaf in self.drawn else value
            for leaf, value in last.items()
            if leaf not in self.undecided
        }


def _since(leaf: Leaf, steps: Sequence[Values]) -> int:
    number = len(steps) - 1
    while number > 0 and steps[number - 1].get(leaf) == steps[-1][leaf]:
        number -= 1
    return number


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which a run is not as it has to be."""

    key: Key
    path: str
    text: str

    @property
    def lost(self) -> bool:
        """Whether an object or a generated value is not there any more."""
        return self.text == "is missing" or (self.path.startswith("/data/") and "since step" in self.text)

    def __str__(self) -> str:
        return f"{' '.join(self.key)}{self.path} {self.text}"


def described(differences: Iterable[Difference], limit: int = 6) -> str:
    """Some differences as one text."""
    texts = [str(difference) for difference in differences]
    more = f"; and {len(texts) - limit} more" if len(texts) > limit else ""
    return "; ".join(texts[:limit]) + more
