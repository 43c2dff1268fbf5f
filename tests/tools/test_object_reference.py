"""How a user names objects on the command line."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.resource import Resource
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools.command_target import (
    ObjectReference,
    find_object,
    matching_resources,
    only_resource,
    parse_chain,
    parse_reference,
    parse_references,
    resolve_kind,
    unknown_kind,
)
from tests.operator.harness import Desk, config_map, echo


def resource(
    group: str, kind: str, plural: str, *short_names: str, version: str = "v1", singular: str = ""
) -> Resource:
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        namespaced=True,
        singular=singular or kind.lower(),
        short_names=short_names,
    )


# As discovery orders them: the core group first, then the groups by priority.
SERVED = (
    resource("", "Event", "events", "ev"),
    resource("", "Service", "services", "svc"),
    resource("apps", "Deployment", "deployments", "deploy"),
    resource("batch", "CronJob", "cronjobs", "cj"),
    resource("events.k8s.io", "Event", "events", "ev"),
    resource("example.com", "Echo", "echoes", "ec"),
    resource("melenion.com", "NeonDatabase", "neondatabases", "neon", singular="neondb"),
    resource("other.org", "Deployment", "deployments"),
    resource("other.org", "Svc", "svc"),
)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["echo/a"], ["echo/a"]),
        (["echo", "a"], ["echo/a"]),
        (["echoes.example.com/a"], ["echoes.example.com/a"]),
        (["echo", "a", "b"], ["echo/a", "echo/b"]),
        (["echo/a", "svc/b"], ["echo/a", "svc/b"]),
        (["echo,svc", "a"], ["echo/a", "svc/a"]),
        ([], []),
    ],
)
def test_objects_are_named_as_for_kubectl(arguments: list[str], found: list[str]) -> None:
    assert [str(each) for each in parse_references(arguments)] == found


def test_a_kind_alone_names_all_its_objects_only_where_a_command_allows_it() -> None:
    assert parse_references(["echo"], names=False) == (ObjectReference("echo"),)
    with pytest.raises(CommandError, match="'echo' names no object; write echo/NAME or echo NAME"):
        parse_references(["echo"])


@pytest.mark.parametrize(
    "arguments",
    [["/a"], ["echo/"], ["echo/a/b"], ["echo/a", "b"], ["a", "echo/b"], ["", "a"], ["echo", ""], ["a,", "b"]],
)
def test_a_malformed_reference_is_one_line_and_exit_code_2(arguments: list[str]) -> None:
    with pytest.raises(CommandError) as caught:
        parse_references(arguments)
    assert caught.value.code == 2
    assert "\n" not in str(caught.value)


@given(st.lists(st.text(max_size=8), max_size=4), st.booleans())
def test_any_arguments_are_references_with_both_parts_or_a_command_error(arguments: list[str], names: bool) -> None:
    found: tuple[ObjectReference, ...] = ()
    with contextlib.suppress(CommandError):
        found = parse_references(arguments, names=names)
    assert all(each.kind and "/" not in each.kind + each.name for each in found)
    assert all(each.name for each in found) or not names


def test_one_object_is_one_object() -> None:
    assert parse_reference(["echo", "a"]) == ObjectReference("echo", "a")
    for arguments in (["echo", "a", "b"], []):
        with pytest.raises(CommandError, match="name one, as KIND/NAME"):
            parse_reference(arguments)


@pytest.mark.parametrize(
    "arguments",
    [["echo/a", "svc/b"], ["echo", "a", "svc", "b"], ["echo/a", "svc", "b"], ["echo", "a", "svc/b"]],
)
def test_a_parent_and_its_child_are_named_one_after_the_other(arguments: list[str]) -> None:
    assert [str(each) for each in parse_chain(arguments)] == ["echo/a", "svc/b"]


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("echo", ["echoes.example.com"]),
        ("Echo", ["echoes.example.com"]),
        ("ECHOES", ["echoes.example.com"]),
        ("ec", ["echoes.example.com"]),
        ("echo.example.com", ["echoes.example.com"]),
        ("echoes.example.com", ["echoes.example.com"]),
        ("ec.example.com", ["echoes.example.com"]),
        ("echoes.v1.example.com", ["echoes.example.com"]),
        ("echoes.exam", ["echoes.example.com"]),
        ("echoes.other.org", []),
        ("neondb", ["neondatabases.melenion.com"]),
        ("neondatabase", ["neondatabases.melenion.com"]),
        ("events", ["events", "events.events.k8s.io"]),
        ("ev.events.k8s.io", ["events.events.k8s.io"]),
        ("deployments", ["deployments.apps", "deployments.other.org"]),
        ("deployments.apps", ["deployments.apps"]),
        ("deploy", ["deployments.apps"]),
        ("svc", ["svc.other.org"]),  # a full name excludes the short name of Service
        ("nothing", []),
    ],
)
def test_a_kind_is_found_by_every_name_that_kubectl_knows(kind: str, names: list[str]) -> None:
    assert [found.name for found, _ in matching_resources(kind, SERVED)] == names


def test_a_version_in_a_kind_selects_that_version() -> None:
    assert matching_resources("cronjobs.v1beta1.batch", SERVED) == [(SERVED[3], "v1beta1")]


BACKUPS = [resource(group, "Backup", "backups", "bk") for group in ("a.example.com", "b.example.org")]
FOLDERS = [each.name for each in BACKUPS]


@pytest.mark.parametrize(
    ("kind", "folders", "meant"),
    [
        ("backup", FOLDERS, ""),
        ("Backups", [], ""),
        ("bk", [], ""),
        ("backup", FOLDERS[1:], "backups.b.example.org"),
        ("backups.a.example.com", FOLDERS, "backups.a.example.com"),
        ("backup.b", [], "backups.b.example.org"),
        ("event", [], "events"),
        ("events", ["events.events.k8s.io"], "events.events.k8s.io"),
        ("deployment", [], "deployments.apps"),
    ],
)
def test_a_kind_of_several_groups_is_named_with_them(kind: str, folders: list[str], meant: str) -> None:
    found = matching_resources(kind, [*SERVED, *BACKUPS])
    if meant:
        assert only_resource(kind, found, folders)[0].name == meant
        return
    with pytest.raises(CommandError) as caught:
        only_resource(kind, found, folders)
    assert (str(caught.value), caught.value.code) == (
        f"{kind} is a kind of several groups; write backups.a.example.com or backups.b.example.org instead",
        2,
    )


@pytest.mark.parametrize(
    ("kind", "suggested"),
    [
        ("ecoes", "echoes.example.com"),
        ("deploymnet", "deployments.apps"),
        ("NeonDatabse", "neondatabases.melenion.com"),
        ("echoes.exmaple.com", "echoes.example.com"),
        ("deployments.batch", "deployments.apps"),
    ],
)
def test_a_mistyped_kind_gets_a_suggestion(kind: str, suggested: str) -> None:
    message = unknown_kind(kind, SERVED)
    assert message.startswith(f"the cluster serves no resource {kind}; did you mean ")
    assert suggested in message


def test_a_kind_that_resembles_nothing_gets_no_suggestion() -> None:
    assert unknown_kind("xyzzy", SERVED) == (
        "the cluster serves no resource xyzzy; install its CRD with `ssa-operator crds apply`, or correct the kind"
    )


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_the_cluster_resolves_kinds_short_names_and_versions(client: Client, desk: Desk) -> None:
    mapper = RESTMapper(client)
    for kind in ("deploy", "Deployment", "deployments", "deployment.apps", "deployments.v1.apps"):
        found = await resolve_kind(mapper, kind)
        assert (found.name, found.version) == ("deployments.apps", "v1")
    assert (await resolve_kind(mapper, "events")).group == ""
    assert (await resolve_kind(mapper, "events", folders=["events.events.k8s.io"])).group == "events.k8s.io"
    with pytest.raises(CommandError, match=r"did you mean deployments\.apps"):
        await resolve_kind(mapper, "deploymnets")


@pytest.mark.exhaustive
@pytest.mark.cluster
async def test_a_mistyped_name_gets_a_suggestion_and_another_namespace_is_named(client: Client, desk: Desk) -> None:
    await desk.apply(echo("web"), config_map(f"only-{desk.namespace}"))
    mapper = RESTMapper(client)
    found = await find_object(client, mapper, ObjectReference("echo", "web"), namespace=desk.namespace)
    assert found.live.identity.namespace == desk.namespace
    with pytest.raises(CommandError) as caught:
        await find_object(client, mapper, ObjectReference("echo", "wbe"), namespace=desk.namespace)
    assert str(caught.value) == f"there is no Echo {desk.namespace}/wbe; did you mean web?"
    with pytest.raises(CommandError) as caught:
        await find_object(client, mapper, ObjectReference("cm", f"only-{desk.namespace}"))
    assert f"there is one in namespace {desk.namespace}: choose it with -n" in str(caught.value)
