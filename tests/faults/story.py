"""The story of every cell of the fault matrix: parents, their templates, what a user does in each phase, and the state
that the templates say.

Promises:
- `differences` compares everything in the namespace with what the templates say: a missing, a wrong and a superfluous
  object are each one sentence.
- The story has every kind of child that the operator treats in its own way: one that reads another one, one that is
  pruned, one with a generated value, one that is recreated, one that is applied once, one that the parent can't own,
  two that all parents share, and a finalize hook.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.operator.harness import definition, is_ready, uid

GROUP = "faults.example.com"
STACKS = f"stacks.{GROUP}"
MAPS = "configmaps"
SECRETS = "secrets"
ROLES = "clusterroles.rbac.authorization.k8s.io"

RESOURCES = (STACKS, MAPS, SECRETS, ROLES)
"""All resources of the story."""

CRD = definition("stacks", GROUP, "Stack")

Body = dict[str, Any]
Key = tuple[str, str]
"""A resource and a name."""

SHARED: Key = (MAPS, "shared")
"""What all parents share."""

Snapshot = Mapping[Key, Body]
"""All objects of the story."""


def _map(name: str, rest: str, annotations: str = "{}") -> str:
    head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n"
    return f"{head}  name: {{{{ name }}}}-{name}\n  annotations: {annotations}\n{rest}\n"


def _role(name: str, annotations: str = "{}") -> str:
    head = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n"
    return f"{head}  name: {{{{ namespace }}}}-{name}\n  annotations: {annotations}\nrules: []\n"


_RECREATE = "{ssa-operator.dev/recreate: Background}"
_SHARED = "{ssa-operator.dev/apply: Shared}"


def _base(templates: str) -> str:
    """The template that tells the sets of templates apart."""
    return _map("base", f"data: {{n: '{{{{ spec.n }}}}', templates: {templates}}}")


TEMPLATES = {
    "base": _base("one"),
    "reader": _map("reader", "data: {uid: \"{{ child('ConfigMap', name + '-base').metadata.uid }}\"}"),
    "extra": f"{{% if spec.extra %}}\n{_map('extra', '')}---\n{_role('{{ name }}-extra')}---\n"
    f"{_role('shared-extra', _SHARED)}{{% endif %}}\n",
    "shared": _map("shared", "data: {n: '{{ spec.n }}'}", _SHARED).replace("{{ name }}-", ""),
    "second": f"{{% if spec.n > 1 %}}\n{_map('second', '')}{{% endif %}}\n",
    "frozen": _map("frozen", "immutable: true\ndata: {key: '{{ spec.key }}'}", _RECREATE),
    "once": _map("once", "data: {word: one}", "{ssa-operator.dev/apply: Once}"),
    "role": _role("{{ name }}"),
    "bye": _map("bye", "data: {word: bye}", "{ssa-operator.dev/on: finalize}"),
    "secret": f"""\
{{% set password = generated(20) %}}
apiVersion: v1
kind: Secret
metadata:
  name: {{{{ name }}}}-secret
  annotations: {_RECREATE}
type: example.com/{{{{ spec.key }}}}
stringData:
  password: {{{{ password }}}}
""",
}


ROLLOUT = "rollout: {canary: {count: 1}, batch: 1, settle: 100ms}\n"


def write_templates(folder: Path, settings: str = "") -> Path:
    """Write the templates of the story. Returns their folder."""
    (folder / STACKS).mkdir(parents=True)
    for name, text in TEMPLATES.items():
        (folder / STACKS / f"{name}.yaml.j2").write_text(text)
    (folder / STACKS / "_settings.yaml").write_text(f"clusterScope: true\n{settings}")
    return folder


def change_templates(folder: Path, templates: str) -> None:
    """Replace the set of templates by another one, as `Spec.templates` names it."""
    path = folder / STACKS / "base.yaml.j2"
    draft = path.with_name(f".{path.name}.draft")
    draft.write_text(_base(templates))
    draft.rename(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """The spec of a parent."""

    n: int = 1
    """Is in a child's data."""
    extra: bool = True
    """Whether some more children are rendered."""
    key: str = "a"
    """Is in immutable fields of two children."""
    templates: str = "one"
    """The set of templates that it is on."""


Specs = Mapping[str, Spec]
"""The parents by name."""

NONE: Specs = MappingProxyType({})

FIRST: Specs = {f"web-{number}": Spec() for number in range(3)}
"""The parents at the beginning."""


def stack(name: str, spec: Spec) -> Body:
    """The parent as a user applies it."""
    body = {"n": spec.n, "extra": spec.extra, "key": spec.key}
    return {"apiVersion": f"{GROUP}/v1", "kind": "Stack", "metadata": {"name": name}, "spec": body}


def wanted(namespace: str, name: str, spec: Spec) -> dict[Key, Body | None]:
    """The children of a parent, and what has to be in each (None: its existence is enough)."""
    children: dict[Key, Body | None] = {
        (MAPS, f"{name}-base"): {"data": {"n": str(spec.n), "templates": spec.templates}},
        (MAPS, f"{name}-reader"): None,
        (MAPS, f"{name}-frozen"): {"data": {"key": spec.key}},
        (MAPS, f"{name}-once"): {"data": {"word": "one"}},
        (SECRETS, f"{name}-secret"): {"type": f"example.com/{spec.key}"},
        (ROLES, f"{namespace}-{name}"): None,
        SHARED: {"data": {"n": str(spec.n)}},
    }
    if spec.extra:
        roles = (f"{namespace}-{name}-extra", f"{namespace}-shared-extra")
        children |= {(MAPS, f"{name}-extra"): None, **{(ROLES, role): None for role in roles}}
    if spec.n > 1:
        children[MAPS, f"{name}-second"] = None
    return children


def differences(snapshot: Snapshot, namespace: str, specs: Specs, left: Specs = NONE) -> list[str]:
    """How the objects differ from what the templates say. `left` are deleted parents that left their children."""
    found = []
    everything = {(STACKS, name) for name in specs}
    for name, spec in {**specs, **left}.items():
        parent = snapshot.get((STACKS, name))
        if parent is not None and not is_ready(parent):
            found.append(f"{name} is not ready")
        children = wanted(namespace, name, spec)
        everything |= children.keys()
        for key, fields in children.items():
            body = snapshot.get(key)
            if body is not None and any(body.get(field) != value for field, value in (fields or {}).items()):
                found.append(f"{' '.join(key)} is not as rendered")
        base, reader = (snapshot.get((MAPS, f"{name}-{part}")) for part in ("base", "reader"))
        if base is not None and reader is not None and reader.get("data") != {"uid": uid(base)}:
            found.append(f"{name}-reader has not the uid of {name}-base")
    shared = snapshot.get(SHARED, {}).get("metadata", {})
    owners = {each["uid"] for each in shared.get("ownerReferences", ())}
    if owners != {uid(snapshot[STACKS, name]) for name in specs if (STACKS, name) in snapshot}:
        found.append(f"{' '.join(SHARED)} has other owners than the parents")
    found += [f"{' '.join(key)} is missing" for key in sorted(everything - snapshot.keys())]
    found += [f"{' '.join(key)} is left over" for key in sorted(snapshot.keys() - everything)]
    return found


def passwords(snapshot: Snapshot) -> dict[str, str]:
    """The generated values by the names of their Secrets."""
    return {
        name: body["data"]["password"]
        for (resource, name), body in snapshot.items()
        if resource == SECRETS and not name.startswith(KEPT)
    }


KEPT = "ssa-operator-kept-"
"""The operator's own Secrets, which keep generated values during a recreation. They are deleted after it."""


class Phase(enum.Enum):
    """What happens while a fault lasts."""

    START_UP = "start-up"
    """The operator starts. The parents are new."""
    STEADY_STATE = "steady state"
    """Other users delete a child and change another one. The operator resyncs."""
    MASS_UPDATE = "mass update"
    """All parents change."""
    PRUNE = "prune"
    """Children are no longer rendered."""
    RECREATE = "recreate"
    """Immutable fields change."""
    FINALIZE = "finalize"
    """All parents but one are deleted."""
    ROLLOUT = "rollout"
    """Another set of templates reaches the parents one by one."""
    ORPHAN = "orphan while down"
    """All parents but one are deleted with `--cascade=orphan` while no operator runs. Then it starts."""

    @property
    def starts(self) -> bool:
        """Whether the operator starts in it."""
        return self in (Phase.START_UP, Phase.ORPHAN)

    @property
    def left(self) -> Specs:
        """The deleted parents that left their children."""
        return {name: FIRST[name] for name in DELETED} if self is Phase.ORPHAN else NONE

    @property
    def after(self) -> Specs:
        """The parents in the end."""
        match self:
            case Phase.MASS_UPDATE:
                return {name: replace(spec, n=2) for name, spec in FIRST.items()}
            case Phase.PRUNE:
                return {name: replace(spec, extra=False) for name, spec in FIRST.items()}
            case Phase.RECREATE:
                return {name: replace(spec, key="b") for name, spec in FIRST.items()}
            case Phase.ROLLOUT:
                return {name: replace(spec, templates="two") for name, spec in FIRST.items()}
            case Phase.FINALIZE | Phase.ORPHAN:
                return {name: spec for name, spec in FIRST.items() if name not in DELETED}
            case _:
                return FIRST

    def may_go(self, key: Key, namespace: str) -> bool:
        """Whether an object that existed before the phase has to be deleted in it."""
        resource, name = key
        match self:
            case Phase.STEADY_STATE:
                return key == DELETED_CHILD
            case Phase.PRUNE:
                return name.endswith("-extra")
            case Phase.RECREATE:
                return name.endswith(("-frozen", "-secret"))
            case Phase.FINALIZE:
                parents = [name.removeprefix(f"{namespace}-")] if resource == ROLES else [name]
                return any(each.startswith(DELETED) for each in parents)
            case Phase.ORPHAN:
                return resource == STACKS and name in DELETED
            case _:
                return False


DELETED = ("web-0", "web-1")
"""The parents that a user deletes in FINALIZE and ORPHAN."""

LEAVE_CHILDREN = {"metadata": {"annotations": {"ssa-operator.dev/deletion": "Orphan"}}}
"""What a user merges into a parent to decide what its deletion means, if no operator saw it begin."""

DELETED_CHILD: Key = (MAPS, "web-0-base")
CHANGED_CHILD: Key = (MAPS, "web-1-base")
"""What a user does in STEADY_STATE."""


def wrongly_deleted(gone: Iterable[tuple[Key, str]], before: Snapshot, phase: Phase, namespace: str) -> list[str]:
    """The deleted objects (their keys and uids) that had to stay: all but those that the phase deletes, and finalize
    hooks, which go with their parents.
    """
    found = []
    for key, gone_uid in gone:
        if key[0] == SECRETS and key[1].startswith(KEPT):
            continue
        hook = phase is Phase.FINALIZE and key[1].endswith("-bye")
        old = before.get(key)
        if not hook and not (old is not None and uid(old) == gone_uid and phase.may_go(key, namespace)):
            found.append(" ".join(key))
    return found
