"""The stories that are perturbed: every example, and every kind of child with one operator, with shards and with leader
election.

Promises:
- Each story creates its parents, changes them so that children are changed, pruned or recreated, and deletes them.
- A run of a story has a namespace of its own, and touches no object of another run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.faults import story as stacks
from tests.operator.harness import ECHOES, ROOT
from tests.perturbations.states import states
from tests.perturbations.story import RUN_LABEL, Action, Apply, Body, Delete, Processes, Step, Story


def _body(api_version: str, kind: str, name: str, **rest: Any) -> Body:
    metadata = {"name": name, **rest.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _gallery(name: str, plural: str, kind: str, specs: Sequence[tuple[str, Body]], *resources: str) -> Story:
    """An example whose parent has one spec after the other, and then is deleted."""
    group = "gallery.example.com"
    resource = f"{plural}.{group}"

    def step(title: str, spec: Body) -> Step:
        return Step(title, lambda _: [Apply(resource, _body(f"{group}/v1", kind, "web", spec=spec))])

    return Story(
        name=name,
        templates=ROOT / "examples" / name / "templates",
        crds=ROOT / "examples" / name / "crds",
        folders=(resource,),
        steps=(*(step(title, spec) for title, spec in specs), Step("delete", lambda _: [Delete(resource, "web")])),
        resources=(resource, *resources),
    )


DEPLOYMENTS, JOBS, STATEFUL_SETS = "deployments.apps", "jobs.batch", "statefulsets.apps"
POLICIES = "networkpolicies.networking.k8s.io"
BINDINGS = "clusterrolebindings.rbac.authorization.k8s.io"
BLOGS = "blogs.gallery.example.com"
INDEXES = "indexes.gallery.example.com"
SERVERS = "echoservers.example.roperator.com"
TEMPORARY = "tempnamespaces.example.roperator.com"
DATABASES, BRANCHES = "neondatabases.melenion.com", "neonbranches.melenion.com"


def _echo() -> Story:
    def step(title: str, replicas: int) -> Step:
        body = _body("example.com/v1", "Echo", "web", spec={"replicas": replicas})
        return Step(title, lambda _: [Apply(ECHOES, body)])

    return Story(
        name="Echo",
        templates=ROOT / "templates",
        crds=ROOT / "crds",
        folders=(ECHOES,),
        steps=(step("create", 1), step("change", 2), Step("delete", lambda _: [Delete(ECHOES, "web")])),
        resources=(ECHOES, DEPLOYMENTS),
    )


def _shared_password() -> Story:
    story = _gallery(
        "shared-password",
        "blogs",
        "Blog",
        [("create", {}), ("change", {"replicas": 2})],
        "secrets",
        "services",
        DEPLOYMENTS,
    )
    another_password = Step("a user deletes the Secret", lambda _: [Delete("secrets", "web-password")])
    return Story(
        name=story.name,
        templates=story.templates,
        crds=story.crds,
        folders=story.folders,
        steps=(*story.steps[:2], another_password, story.steps[2]),
        resources=story.resources,
    )


def _service_index() -> Story:
    def service(team: str) -> Callable[[str], Sequence[Action]]:
        def actions(namespace: str) -> Sequence[Action]:
            labels = {"gallery.example.com/team": team.replace("NS", namespace)}
            return [
                Apply("services", _body("v1", "Service", "api", metadata={"labels": labels}, spec={"ports": _PORTS}))
            ]

        return actions

    def index(namespace: str) -> Sequence[Action]:
        return [Apply(INDEXES, _body("gallery.example.com/v1", "Index", "red", spec={"team": namespace}))]

    return Story(
        name="service-index",
        templates=ROOT / "examples" / "service-index" / "templates",
        crds=ROOT / "examples" / "service-index" / "crds",
        folders=(INDEXES,),
        steps=(
            Step("create", index),
            Step("a Service comes", service("NS")),
            Step("it belongs to another team", service("blue")),
            Step("delete", lambda _: [Delete(INDEXES, "red")]),
        ),
        resources=(INDEXES, "configmaps", "services"),
    )


_PORTS = [{"port": 8080}]


def _echo_server() -> Story:
    def server(name: str, service: str, **spec: str) -> Apply:
        body = _body("example.roperator.com/v1alpha1", "EchoServer", name, spec={"serviceName": service, **spec})
        return Apply(SERVERS, body)

    def both(suffix: str) -> Callable[[str], Sequence[Action]]:
        return lambda _: [
            server("background", f"one{suffix}", farewell="goodbye"),
            server("foreground", f"two{suffix}", recreate="Foreground"),
            server("orphan", f"three{suffix}", recreate="Orphan"),
        ]

    names = ("background", "foreground", "orphan")
    return Story(
        name="echo-server",
        templates=ROOT / "examples" / "echo-server" / "templates",
        crds=ROOT / "examples" / "echo-server" / "crds",
        folders=(SERVERS,),
        steps=(
            Step("create", both("")),
            Step("recreate the pods", both("-b")),
            Step("delete", lambda _: [Delete(SERVERS, name) for name in names]),
        ),
        resources=(SERVERS, "pods", "services", JOBS),
    )


def _namespaces() -> Story:
    secret_type = "kubernetes.io/dockerconfigjson"

    def team(namespace: str, value: str) -> Apply:
        labels = {"gallery.example.com/defaults": value, RUN_LABEL: namespace}
        return Apply("namespaces", _body("v1", "Namespace", f"{namespace}-team", metadata={"labels": labels}))

    def registry(namespace: str) -> Apply:
        return Apply("namespaces", _body("v1", "Namespace", f"{namespace}-registry"))

    def secret(namespace: str, kind: str, **data: str) -> Apply:
        metadata = {"namespace": f"{namespace}-registry"}
        return Apply("secrets", _body("v1", "Secret", "pull-secret", metadata=metadata, type=kind, stringData=data))

    return Story(
        name="namespaces",
        templates=ROOT / "examples" / "namespaces" / "templates",
        crds=None,
        folders=("namespaces",),
        steps=(
            Step("create", lambda namespace: [registry(namespace), team(namespace, "true")]),
            Step("the Secret comes", lambda namespace: [secret(namespace, secret_type, **{".dockerconfigjson": "{}"})]),
            Step(
                "another Secret",
                lambda namespace: [
                    Delete("secrets", "pull-secret", f"{namespace}-registry"),
                    secret(namespace, "Opaque", password="first"),
                ],
            ),
            Step("the label is removed", lambda namespace: [team(namespace, "false")]),
        ),
        resources=("namespaces", "secrets", "resourcequotas", POLICIES),
        cluster_scoped=True,
        reports_status=False,
        replaced={'"registry"': '"NS-registry"'},
    )


def _temp_namespace() -> Story:
    def temporary(after: str) -> Callable[[str], Sequence[Action]]:
        def actions(namespace: str) -> Sequence[Action]:
            metadata = {"labels": {RUN_LABEL: namespace}}
            spec = {"deleteAfter": after}
            body = _body(
                "example.roperator.com/v1alpha1", "TempNamespace", f"{namespace}-temp", metadata=metadata, spec=spec
            )
            return [Apply(TEMPORARY, body)]

        return actions

    return Story(
        name="temp-namespace",
        templates=ROOT / "examples" / "temp-namespace" / "templates",
        crds=ROOT / "examples" / "temp-namespace" / "crds",
        folders=(TEMPORARY,),
        steps=(
            Step("create", temporary("1h")),
            Step("its time is over", temporary("1s")),
            Step("delete", lambda namespace: [Delete(TEMPORARY, f"{namespace}-temp", "")]),
        ),
        resources=(TEMPORARY, "namespaces"),
        cluster_scoped=True,
    )


def _neon() -> Story:
    def database(**spec: Any) -> Apply:
        fixed = {"postgres_version": 17, "safekeepers": {"count": 1}}
        return Apply(DATABASES, _body("melenion.com/v1", "NeonDatabase", "db", spec={**fixed, **spec}))

    branch = Apply(BRANCHES, _body("melenion.com/v1", "NeonBranch", "dev", spec={"database": "db"}))
    shop = {"databases": [{"name": "shop", "owner": "app"}], "roles": [{"name": "app"}]}
    wiki = {"databases": [{"name": "wiki", "owner": "app"}], "roles": [{"name": "app"}]}
    return Story(
        name="NeonDatabase and NeonBranch",
        templates=ROOT / "templates",
        crds=ROOT / "crds",
        folders=(DATABASES, BRANCHES),
        steps=(
            Step("create", lambda _: [database(**shop), branch]),
            Step("another database and settings", lambda _: [database(**wiki)]),
            Step("no roles", lambda _: [database()]),
            Step("delete the branch", lambda _: [Delete(BRANCHES, "dev")]),
            Step("delete", lambda _: [Delete(DATABASES, "db")]),
        ),
        resources=(
            DATABASES,
            BRANCHES,
            "secrets",
            "configmaps",
            "services",
            DEPLOYMENTS,
            STATEFUL_SETS,
            JOBS,
            POLICIES,
        ),
    )


def _all_kinds(name: str, processes: Processes, *parents: str, templates: Path) -> Story:
    """Every kind of child that the operator treats in its own way, by the templates of the fault matrix."""

    def step(title: str, spec: stacks.Spec) -> Step:
        return Step(title, lambda _: [Apply(stacks.STACKS, stacks.stack(parent, spec)) for parent in parents])

    return Story(
        name=name,
        templates=templates,
        crds=None,
        folders=(stacks.STACKS,),
        steps=(
            step("create", stacks.Spec()),
            step("change", stacks.Spec(n=2)),
            step("prune", stacks.Spec(n=2, extra=False)),
            step("recreate", stacks.Spec(n=2, extra=False, key="b")),
            Step("delete", lambda _: [Delete(stacks.STACKS, parent) for parent in parents]),
        ),
        resources=stacks.RESOURCES,
        processes=processes,
    )


def stories(folder: Path) -> list[Story]:
    """All stories. The templates of those without an example are in `folder`."""
    every = folder / "templates"
    if not every.exists():
        stacks.write_templates(every)
    image = ("another image", {"image": "nginx:1.29"})
    secrets = {"secrets": {"dbAuthUsername": "app", "dbBackupBucket": "s3://backups"}}
    return [
        _echo(),
        _gallery(
            "blue-green", "fronts", "Front", [("create", {"image": "nginx:1.28"}), image], "services", DEPLOYMENTS
        ),
        _gallery(
            "cluster-access",
            "viewers",
            "Viewer",
            [("create", {"users": ["a"]}), ("change", {"users": ["b"]})],
            BINDINGS,
        ),
        _gallery(
            "clustered-database",
            "databases",
            "Database",
            [("create", secrets), ("more exporters", {**secrets, "dbExporter": {"replicas": 2}})],
            *("configmaps", "secrets", "serviceaccounts", "services", "roles.rbac.authorization.k8s.io"),
            *("rolebindings.rbac.authorization.k8s.io", "ingresses.networking.k8s.io", POLICIES),
            *("poddisruptionbudgets.policy", DEPLOYMENTS, JOBS, STATEFUL_SETS),
        ),
        _gallery(
            "config-rollout",
            "sites",
            "Site",
            [("create", {"greeting": "a"}), ("change", {"greeting": "b"})],
            "configmaps",
            DEPLOYMENTS,
        ),
        _echo_server(),
        _gallery(
            "migrations",
            "shops",
            "Shop",
            [("create", {"image": "a", "version": "1.0"}), ("another version", {"image": "a", "version": "1.1"})],
            DEPLOYMENTS,
            JOBS,
        ),
        _namespaces(),
        _service_index(),
        _shared_password(),
        _temp_namespace(),
        _neon(),
        _all_kinds("all kinds of children", Processes.ONE, "web", templates=every),
        _all_kinds("two shards", Processes.SHARDS, "web-0", "web-1", templates=every),
        _all_kinds("two replicas", Processes.REPLICAS, "web", templates=every),
        *states(folder),
    ]
