"""The stories of what outlives one parent and one process: objects that parents share, rollouts, deletions that no
operator saw, and objects of an older version.

Promises:
- The stories have templates of their own, and the CRD of the fault matrix; the last one has a CRD with two versions.
- What a story says of an object has to be so without a perturbation, too.
- One converter serves all runs, as a webhook of another process would. No perturbation concerns it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ssa_operator.informers.crds import RESOURCE as CRDS
from ssa_operator.kube.api.client import Client
from ssa_operator.operator.crd_installation import CRDInstaller
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.webhooks.conversion_webhook import ConversionWebhook
from ssa_operator.rendering.folder.installation import Installation
from tests.faults.story import GROUP, MAPS, ROLES, STACKS
from tests.operator.conversion.sites import write
from tests.operator.harness import PATIENCE, operating
from tests.perturbations.story import Action, Annotate, Apply, Body, Delete, Orphan, Step, Story, Write

Objects = Mapping[tuple[str, str], Body]

SITE_GROUP = "states.example.com"
SITES = f"sites.{SITE_GROUP}"
REVISIONS = "controllerrevisions.apps"

OWN = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data: {text: '{{ spec.text }}'}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-{{ name }}
rules: []
"""

SHARED = """\
{% if spec.shares | default(true) %}
apiVersion: v1
kind: ConfigMap
metadata:
  name: shared
  annotations: {ssa-operator.dev/apply: Shared}
data: {text: '{{ spec.text }}'}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ namespace }}-shared
  annotations: {ssa-operator.dev/apply: Shared}
rules: [{apiGroups: [''], resources: ['{{ spec.text }}'], verbs: [get]}]
{% endif %}
"""

ROLLED = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}
data: {set: SET, text: '{{ spec.text }}'}
"""

MORE = """\
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-more
"""

ROLLOUT = """\
rollout:
  canary: {selector: {matchLabels: {tier: canary}}}
  batch: 2
  settle: 100ms
  maxPrune: 5
"""

DECISION = {"ssa-operator.dev/deletion": "Orphan"}


def parent(name: str, labels: Mapping[str, str] | None = None, **spec: Any) -> Apply:
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Stack", "metadata": {"name": name, "labels": labels or {}}}
    return Apply(STACKS, {**body, "spec": {"text": "one", **spec}})


def step(name: str, *actions: Action, **how: Any) -> Step:
    return Step(name, lambda _: actions, **how)


def named(resource: str, name: str) -> Callable[[Objects], Body]:
    """The object of this name, or of it after that of the namespace; {} if it is not there."""

    def find(objects: Objects) -> Body:
        return next((body for key, body in objects.items() if key[0] == resource and key[1].endswith(name)), {})

    return find


def shared_by(*names: str, text: str = "one") -> Callable[[Objects], bool]:
    """Whether these parents and no others own the shared objects."""

    def judge(objects: Objects) -> bool:
        uids = {objects[STACKS, name]["metadata"]["uid"] for name in names if (STACKS, name) in objects}
        config, role = named(MAPS, "shared")(objects), named(ROLES, "-shared")(objects)
        if not names:
            return not config and not role
        if not config or not role or len(uids) != len(names):
            return False
        owners = {each["uid"] for each in config["metadata"].get("ownerReferences", ())}
        recorded = json.loads(role["metadata"]["annotations"]["ssa-operator.dev/owners"])
        in_role = all(uid in json.dumps(recorded) for uid in uids)
        return (
            owners == uids and in_role and config["data"] == {"text": text} and role["rules"][0]["resources"] == [text]
        )

    return judge


def shared(templates: Path) -> Story:
    """Three parents, of which one comes later, one goes, and one no longer renders what they share."""
    three = ("a", "b", "c")
    return Story(
        name="shared objects",
        templates=_written(templates, {"own": OWN, "shared": SHARED}, "clusterScope: true\n"),
        crds=None,
        folders=(STACKS,),
        steps=(
            step("two share", parent("a"), parent("b"), ends=shared_by("a", "b")),
            step("a third one comes", parent("c"), ends=shared_by(*three)),
            step("all change", *(parent(name, text="two") for name in three), ends=shared_by(*three, text="two")),
            step("one goes", Delete(STACKS, "a"), ends=shared_by("b", "c", text="two")),
            step("one no longer shares", parent("b", text="two", shares=False), ends=shared_by("c", text="two")),
            step("the last one goes", Delete(STACKS, "c"), ends=shared_by()),
            step("delete", Delete(STACKS, "b")),
        ),
        resources=(STACKS, MAPS, ROLES),
    )


def rolled(templates: Path) -> Story:
    """A canary, then batches of two; the second change deletes a child of each parent."""
    names = [f"p{number}" for number in range(5)]

    def parents() -> list[Apply]:
        return [parent(name, {"tier": "canary"} if name == "p0" else {}) for name in names]

    def complete(text: str, count: int = len(names)) -> Callable[[Objects], bool]:
        def judge(objects: Objects) -> bool:
            sets = [body["data"]["set"] for (kind, name), body in objects.items() if kind == MAPS and name in names]
            state = named(REVISIONS, STACKS)(objects).get("metadata", {}).get("annotations", {})
            found = json.loads(state.get("ssa-operator.dev/rollout-state", "{}"))
            return sets == [text] * count and bool(found) and not found.get("revision")

        return judge

    file = f"{STACKS}/map.yaml.j2"
    one, two, three = (ROLLED.replace("SET", each) for each in ("one", "two", "three"))
    return Story(
        name="rollout",
        templates=_written(templates, {"map": one + MORE}, ROLLOUT),
        crds=None,
        folders=(STACKS,),
        steps=(
            step("create", *parents(), ends=complete("one")),
            step("another set", Write(file, two + MORE), ends=complete("two")),
            step("a set while no operator runs", Write(file, three), down=True, ends=complete("three")),
            step("the set before", Write(file, two + MORE), ends=complete("two")),
            step("delete", *(Delete(STACKS, name) for name in names)),
        ),
        resources=(STACKS, MAPS, REVISIONS),
    )


def unseen_deletions(templates: Path) -> Story:
    """Parents are deleted with and without their children while no operator runs."""

    def stay(*names: str) -> Callable[[Objects], bool]:
        return lambda objects: all(named(kind, name)(objects) for name in names for kind in (MAPS, ROLES))

    def go(*names: str) -> Callable[[Objects], bool]:
        return lambda objects: not any(named(kind, name)(objects) for name in names for kind in (MAPS, ROLES))

    return Story(
        name="deletions that no operator saw",
        templates=_written(templates, {"own": OWN, "shared": SHARED}, "clusterScope: true\n"),
        crds=None,
        folders=(STACKS,),
        steps=(
            step(
                "create", *(parent(name) for name in ("gone", "left", "here")), ends=shared_by("gone", "left", "here")
            ),
            step(
                "delete",
                Delete(STACKS, "gone"),
                down=True,
                ends=lambda found: go("gone")(found) and stay("left", "here")(found),
            ),
            step(
                "delete with --cascade=orphan",
                Orphan(STACKS, "left"),
                down=True,
                decided=False,
                ends=stay("left", "here", "shared"),
            ),
            step("the user decides", Annotate(STACKS, "left", DECISION), ends=stay("left", "here", "shared")),
            step("the last owner changes", parent("here", text="two"), ends=shared_by("here", text="two")),
            Step(
                "the others are deleted by a user",
                lambda namespace: [Delete(STACKS, "here"), Delete(MAPS, "left"), Delete(ROLES, f"{namespace}-left")],
                ends=go("here", "shared", "left"),
            ),
        ),
        resources=(STACKS, MAPS, ROLES),
    )


def two_versions(templates: Path) -> Story:
    """Users write a parent in both versions. Each apply of the operator's own fields has it converted."""

    def site(version: str, **spec: Any) -> Apply:
        body = {"apiVersion": f"{SITE_GROUP}/{version}", "kind": "Site", "metadata": {"name": "web"}}
        return Apply(SITES, {**body, "spec": spec})

    def has(image: str, replicas: Body) -> Callable[[Objects], bool]:
        def judge(objects: Objects) -> bool:
            config, parent = objects.get((MAPS, "web"), {}), objects.get((SITES, "web"), {})
            return config.get("data") == {"image": image} and parent.get("spec", {}).get("replicas") == replicas

        return judge

    first = site("v1alpha1", image="x", count=4, size="large")
    newer = site("v1", image="x", replicas={"min": 4, "max": 5})
    older = site("v1alpha1", image="y", count=2, size="small")
    return Story(
        name="two versions",
        templates=write(templates, name=SITES),
        crds=None,
        folders=(SITES,),
        steps=(
            step("create in the older version", first, ends=has("x", {"min": 4})),
            step("write the newer one", newer, ends=has("x", {"min": 4, "max": 5})),
            step("write the older one", older, ends=has("y", {"min": 2})),
            step("delete", Delete(SITES, "web")),
        ),
        resources=(SITES, MAPS),
        converts=True,
    )


@asynccontextmanager
async def converting(client: Client, templates: Path) -> AsyncIterator[None]:
    """Install the CRD with two versions, and convert its objects."""
    await CRDInstaller(client, [], [templates]).install()
    # It reconciles nothing, and its Secret is in a namespace that no run has.
    options = Options(
        templates=(templates,),
        installation=Installation(namespace="default"),
        selector="a=b",
        conversion=("127.0.0.1", 0),
        listen=None,
    )
    async with operating(client, options) as running:
        serving = asyncio.create_task(ConversionWebhook(running.operator, "127.0.0.1", 0).run())
        try:
            async with asyncio.timeout(PATIENCE):
                while "url" not in await _client_config(client):
                    assert not serving.done(), serving.exception()
                    await asyncio.sleep(0.05)
            yield
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            # Without it nothing can list, and so delete, what the converter would convert.
            await client.merge_patch(CRDS, "", SITES, b'{"spec":{"conversion":{"strategy":"None","webhook":null}}}')


async def _client_config(client: Client) -> Mapping[str, Any]:
    conversion = (await client.get(CRDS, SITES)).body["spec"].get("conversion") or {}
    found: Mapping[str, Any] = (conversion.get("webhook") or {}).get("clientConfig") or {}
    return found


def _written(folder: Path, texts: Mapping[str, str], settings: str) -> Path:
    """A templates folder with these templates."""
    (folder / STACKS).mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / STACKS / f"{name}.yaml.j2").write_text(text)
    (folder / STACKS / "_settings.yaml").write_text(settings)
    return folder


def states(folder: Path) -> Sequence[Story]:
    """All of these stories; `folder` gets their templates."""
    return (
        shared(folder / "shared"),
        rolled(folder / "rolled"),
        unseen_deletions(folder / "unseen"),
        two_versions(folder / "versions"),
    )
