"""The examples run under exactly the permissions that `ssa-operator rbac` prints, and not under fewer."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api.request import Scope
from ssa_operator.operator import crd_installation as crds
from ssa_operator.operator.http import Server
from ssa_operator.operator.operator_options import Options
from ssa_operator.rendering.folder.installation import Installation
from tests.devcluster.waiting import until
from tests.examples.example_catalog import GALLERY, NAMES, ROOT
from tests.examples.printed_roles import Grant, MakeAccount, token_of
from tests.operator.harness import DEPLOYMENT, ECHOES, PATIENCE, Desk, Running, echo, not_ready_because, operating
from tests.operator.test_http import EVERYWHERE, Reader

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def parent(api_version: str, kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """A parent, its changes, and what becomes of its children."""

    resource: str
    parent: dict[str, Any]
    changes: tuple[dict[str, Any], ...] = ()
    """The specs that are merged into the parent, one after the other."""
    pruned: tuple[str, ...] = ()
    """Children (`services/greetings`) that are gone after the changes."""
    granted: tuple[dict[str, Any], ...] = ()
    """The rules that `rbac` leaves to the administrator, because the templates grant what only a render knows."""
    before: tuple[str, ...] = ()
    """The stories that are played before, up to the deletion of their parents, which follows after it."""


GALLERY_API = "gallery.example.com/v1"

STORIES = {
    "blue-green": Story(
        resource="fronts.gallery.example.com",
        parent=parent(GALLERY_API, "Front", "home", image="nginx:1.28"),
        changes=({"image": "nginx:1.29"},),
    ),
    "cluster-access": Story(
        resource="viewers.gallery.example.com",
        parent=parent(GALLERY_API, "Viewer", "auditors", users=["ada"]),
        changes=({"users": ["ada", "grace"]},),
    ),
    "clustered-database": Story(
        resource="databases.gallery.example.com",
        parent=parent(
            GALLERY_API,
            "Database",
            "orders",
            secrets={"dbAuthUsername": "a", "dbBackupBucket": "s3://b"},
        ),
        changes=({"db": {"replicas": 2}},),
        granted=({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["bind", "escalate"]},),
    ),
    "config-rollout": Story(
        resource="sites.gallery.example.com",
        parent=parent(GALLERY_API, "Site", "welcome", greeting="hello"),
        changes=({"greeting": "goodbye"},),
    ),
    "echo-server": Story(
        resource="echoservers.example.roperator.com",
        parent=parent(
            "example.roperator.com/v1alpha1", "EchoServer", "polite", serviceName="first", farewell="goodbye"
        ),
        changes=({"serviceName": "second"},),
        pruned=("services/first",),
    ),
    "migrations": Story(
        resource="shops.gallery.example.com",
        parent=parent(GALLERY_API, "Shop", "tools", image="shop", version="1.0"),
        changes=({"version": "1.1"},),
    ),
    "service-index": Story(
        resource="indexes.gallery.example.com",
        parent=parent(GALLERY_API, "Index", "red", team="red"),
        changes=({"team": "blue"},),
    ),
    "shared-password": Story(
        resource="blogs.gallery.example.com",
        parent=parent(GALLERY_API, "Blog", "diary"),
        changes=({"replicas": 2},),
    ),
    "echo": Story(
        resource=ECHOES,
        parent=echo("hello", 1),
        changes=({"replicas": 2},),
    ),
    "neondatabase": Story(
        resource="neondatabases.melenion.com",
        parent=parent("melenion.com/v1", "NeonDatabase", "db", postgres_version=17, safekeepers={"count": 1}),
        changes=({"neon_image_ref": "neon:2"},),
    ),
    "neonbranch": Story(
        resource="neonbranches.melenion.com",
        parent=parent("melenion.com/v1", "NeonBranch", "dev", database="db"),
        before=("neondatabase",),
    ),
}
"""The others have no parent with a status in a namespace: each has its own test."""


def arguments_of(name: str) -> tuple[Path, list[str]]:
    """The templates folder of an example, and the options that name its files."""
    if name not in NAMES:
        return ROOT / "templates", [f"--templates={ROOT / 'templates'}"]
    return GALLERY / name / "templates", [f"--templates={GALLERY / name / 'templates'}"]


async def remove_echoes(desk: Desk) -> None:
    """Remove the Echos that earlier tests left in deletion: an operator of all namespaces would go on with them."""
    resource = await desk.mapper.resource_by_name(ECHOES)
    found, _ = await desk.client.list_scope(Scope(resource, ""))
    for namespace in {live.identity.namespace for live in found}:
        async with desk.elsewhere(namespace) as there:
            for name in [live.identity.name for live in found if live.identity.namespace == namespace]:
                with contextlib.suppress(AssertionError):  # it is gone by now
                    await there.patch(ECHOES, name, metadata={"finalizers": None})
                with contextlib.suppress(AssertionError):
                    await there.delete(ECHOES, name)


_with_examples: set[Path] = set()
"""The kubeconfigs of the control planes that have the CRDs of all examples."""


async def install_crds(desk: Desk) -> None:
    """Install the CRDs of all examples: the admission plugin OwnerReferencesPermissionEnforcement knows a new CRD up to
    half a minute late, so it is late only once.
    """
    if desk.kubeconfig not in _with_examples:
        await crds.install(desk.client, crds.load_crds(*sorted(GALLERY.glob("*/crds"))))
        _with_examples.add(desk.kubeconfig)


def options(desk: Desk, templates: Path, *namespaces: str) -> Options:
    """Those of an operator that is installed in the test's namespace, as the printed roles are."""
    installation = Installation(namespace=desk.namespace)
    return Options(
        templates=(templates,), namespaces=namespaces, installation=installation, resync_rate=0.0, listen=None
    )


async def play(story: Story, desk: Desk) -> None:
    """Create the parent, change it, and delete it."""
    await create_and_change(story, desk)
    for child in story.pruned:
        await desk.gone(*child.split("/"))
    await desk.delete(story.resource, story.parent["metadata"]["name"])
    for other in story.before:
        await desk.delete(STORIES[other].resource, STORIES[other].parent["metadata"]["name"])


async def create_and_change(story: Story, desk: Desk) -> None:
    for other in story.before:
        await create_and_change(STORIES[other], desk)
    await desk.apply(story.parent)
    name, kind = story.parent["metadata"]["name"], story.resource
    await desk.ready(kind, name)
    for change in story.changes:
        await desk.patch(kind, name, spec=change)
        await desk.ready(kind, name)


QUICK = ("echo",)
"""The examples that run in every test run; `make test-slow` runs the others."""


PLAYED = [name for name in STORIES if not any(name in story.before for story in STORIES.values())]
"""The stories that are no part of another one, whose example has the same templates and so the same permissions."""


def test_every_example_has_a_story() -> None:
    assert {*STORIES, "namespaces", "temp-namespace"} == {
        *NAMES,
        *(path.stem for path in GALLERY.glob("*.yaml")),
    }


@pytest.mark.parametrize(
    "limited", [False, pytest.param(True, marks=pytest.mark.exhaustive)], ids=["all namespaces", "one namespace"]
)
@pytest.mark.parametrize(
    "name", [each if each in QUICK else pytest.param(each, marks=pytest.mark.slow) for each in PLAYED]
)
async def test_an_example_runs_under_the_permissions_that_the_command_prints(
    name: str, limited: bool, cluster: Cluster, desk: Desk, account: MakeAccount, caplog: pytest.LogCaptureFixture
) -> None:
    root, arguments = arguments_of(name)
    story, namespaces = STORIES[name], (desk.namespace,) if limited else ()
    await install_crds(desk)
    if not limited:
        await remove_echoes(desk)
    arguments += [f"--namespace={each}" for each in namespaces]
    async with (
        account(*arguments, added=story.granted) as operator,
        operating(operator.client, options(desk, root, *namespaces)) as running,
    ):
        await play(story, desk)
        assert running.operator.missing_permissions == ()
    assert operator.refused(cluster) == []
    forbidden = [line for line in caplog.text.splitlines() if "forbidden" in line.lower()]
    assert [line for line in forbidden if "cannot find RESTMapping" not in line] == []


@pytest.mark.parametrize("name", ["echo", pytest.param("neondatabase", marks=pytest.mark.slow)])
async def test_an_impersonating_operator_runs_under_the_permissions_that_the_command_prints(
    name: str, cluster: Cluster, desk: Desk, account: MakeAccount
) -> None:
    root, arguments = arguments_of(name)
    await install_crds(desk)
    impersonating = replace(options(desk, root, desk.namespace), impersonate="deployer")
    arguments += ["--impersonate=deployer", f"--namespace={desk.namespace}"]
    async with account(*arguments) as operator, operating(operator.client, impersonating) as running:
        role = f"{operator.name.rpartition(':')[2]}-children"
        deployer = f"--serviceaccount={desk.namespace}:deployer"
        await desk.kubectl("create", "rolebinding", role, f"--clusterrole={role}", deployer)
        await play(STORIES[name], desk)
        assert running.operator.missing_permissions == ()
    assert operator.refused(cluster) == []


@pytest.mark.slow
async def test_a_built_in_parent_runs_under_the_permissions_that_the_command_prints(
    cluster: Cluster, desk: Desk, account: MakeAccount
) -> None:
    """The lookup of one Secret in another namespace needs no other Secret of that namespace."""
    root, arguments = arguments_of("namespaces")
    source = GALLERY / "namespaces" / "examples" / "registry.yaml"
    team = f"team-{uuid.uuid4().hex[:8]}"
    await desk.kubectl("apply", "-f", str(source), "--namespace=registry")
    try:
        async with (
            account(*arguments) as operator,
            operating(operator.client, options(desk, root)) as running,
        ):
            await desk.kubectl("create", "namespace", team)
            await desk.kubectl("label", "namespace", team, "gallery.example.com/defaults=true")
            for child in ("secret/pull-secret", "networkpolicy/defaults", "resourcequota/defaults"):
                await desk.kubectl("wait", "--for=create", "--timeout=60s", child, f"--namespace={team}")
            # The type of a Secret is immutable: the operator deletes and recreates it.
            await desk.kubectl("delete", "secret", "pull-secret", "--namespace=registry")
            second = ["--from-literal=key=second", "--namespace=registry"]
            await desk.kubectl("create", "secret", "generic", "pull-secret", *second)
            recreated = "--for=jsonpath={.type}=Opaque"
            await desk.kubectl("wait", recreated, "--timeout=60s", "secret/pull-secret", f"--namespace={team}")
            assert running.operator.missing_permissions == ()
        assert operator.refused(cluster) == []
    finally:
        await desk.kubectl("delete", "namespace", team, "registry", "--ignore-not-found", "--wait=false")


@pytest.mark.slow
async def test_an_expired_namespace_is_deleted_under_the_permissions_that_the_command_prints(
    cluster: Cluster, desk: Desk, account: MakeAccount
) -> None:
    root, arguments = arguments_of("temp-namespace")
    await install_crds(desk)
    name = f"playground-{uuid.uuid4().hex[:8]}"
    kind = ("example.roperator.com/v1alpha1", "TempNamespace", name)
    async with (
        account(*arguments) as operator,
        operating(operator.client, options(desk, root)),
    ):
        await desk.apply(parent(*kind, deleteAfter="1h"))
        await desk.kubectl("wait", "--for=create", "--timeout=60s", f"namespace/{name}")
        await desk.apply(parent(*kind, deleteAfter="1s"))
        await desk.kubectl("wait", "--for=delete", "--timeout=90s", f"namespace/{name}")
        await desk.kubectl("delete", "tempnamespace", name, "--timeout=60s")
    assert operator.refused(cluster) == []


RENAMED = DEPLOYMENT.replace("  name: {{ name }}\n  labels:", "  name: {{ name }}-new\n  labels:")

SERIES = {("events.k8s.io", "events", "patch")}
"""An Event that happens again is patched, perhaps later than in this story."""

UNSEEN = {
    "list": "it is the fallback where an API server doesn't stream lists, or cuts a stream",
    "get": "a parent is read again after a conflict, and a child that turns out to exist before it is adopted",
}
"""Verbs that no request of this story needs, with those that do. Pods are listed if a workload stays unready."""


async def rename_child(running: Running, desk: Desk) -> None:
    """An Echo is created, and scaled; a changed template renames its Deployment, which prunes the old one; the Echo is
    deleted.
    """
    await desk.apply_until_ready(echo("hello", 1))
    await desk.apply_until_ready(echo("hello", 2))
    running.write(f"{ECHOES}/deployment.yaml.j2", RENAMED)
    await desk.until(ECHOES, "hello", not_ready_because("PruneHeld"))
    await desk.patch("echo", "hello", metadata={"annotations": {"ssa-operator.dev/reconcile-at": "now"}})
    await desk.gone("deployments.apps", "hello")
    await desk.ready(ECHOES, "hello")
    await desk.delete("echo", "hello")


@pytest.mark.slow
async def test_the_operator_uses_every_permission_that_the_command_prints(
    cluster: Cluster, desk: Desk, templates: Path, account: MakeAccount
) -> None:
    arguments = [f"--templates={templates}", f"--crds={ROOT / 'crds'}", f"--namespace={desk.namespace}"]
    async with (
        account(*arguments) as operator,
        operating(operator.client, options(desk, templates, desk.namespace)) as running,
    ):
        await rename_child(running, desk)
        async with Server(running.operator, EVERYWHERE, 0) as server:
            stranger = Reader(server, await token_of(desk, "default"))
            assert await stranger.status("/metrics") == 403
    assert operator.refused(cluster) == []
    checked_in_an_apply = {
        ("apps", "deployments", "create"),
        ("", "configmaps", "create"),
        ("example.com", "echoes/finalizers", "update"),
    }
    seldom = {(group, resource, verb) for group, resource, verb in operator.granted if verb in UNSEEN}
    others = {each for each in operator.granted if each[0] == "coordination.k8s.io" or "neondatabases" in each[1]}
    unused = operator.granted - operator.used(cluster)
    assert checked_in_an_apply <= unused
    assert unused <= checked_in_an_apply | seldom | others | SERIES


NEEDED: list[Grant] = [
    ("apps", "deployments", "watch"),
    ("apps", "deployments", "create"),
    ("apps", "deployments", "patch"),
    ("apps", "deployments", "delete"),
    ("example.com", "echoes", "watch"),
    ("example.com", "echoes", "patch"),
    ("example.com", "echoes/status", "patch"),
    ("example.com", "echoes/finalizers", "update"),
    ("events.k8s.io", "events", "create"),
    ("apiextensions.k8s.io", "customresourcedefinitions", "watch"),
]


@pytest.mark.more_cases
@pytest.mark.slow
@pytest.mark.parametrize("removed", NEEDED, ids=" ".join)
async def test_without_one_of_its_permissions_the_operator_is_refused_and_reports_it(
    removed: Grant, cluster: Cluster, desk: Desk, templates: Path, account: MakeAccount
) -> None:
    arguments = [f"--templates={templates}", f"--crds={ROOT / 'crds'}", f"--namespace={desk.namespace}"]
    async with (
        account(*arguments, removed=removed) as operator,
        operating(operator.client, options(desk, templates, desk.namespace)) as running,
    ):
        story = asyncio.create_task(rename_child(running, desk))
        try:
            await until(lambda: bool(operator.refused(cluster)), PATIENCE)
            await until(lambda: bool(running.operator.missing_permissions), PATIENCE)
        finally:
            story.cancel()
            await asyncio.gather(story, return_exceptions=True)
        group, resource, verb = removed
        missing = {
            (each.permission.group, each.permission.resource, each.permission.verb)
            for each in running.operator.missing_permissions
        }
        assert missing == {(group, resource, verb)}
    if await desk.find(ECHOES, "hello") is not None:
        await desk.delete("echo", "hello", wait=False)
