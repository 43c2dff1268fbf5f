"""What a real kube-apiserver does with our requests and watches."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ssa_operator.devcluster.cluster import Cluster
from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions, DeleteOptions, Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.api.transport import NoObserver
from ssa_operator.kube.auth import credentials
from ssa_operator.kube.clock import SystemClock
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector, ReflectorState, ReflectorTiming
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import KEY_LIMIT, encode
from ssa_operator.objects.live_object import MANAGER, PARENT_UID_LABEL, LiveObject
from tests.conftest import STABLE_ONLY, Kubectl
from tests.kube.fakes import CONFIG_MAPS, SECRETS

pytestmark = pytest.mark.cluster

NAMESPACES = Resource(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
DEPLOYMENTS = Resource(group="apps", version="v1", kind="Deployment", plural="deployments", namespaced=True)
CLUSTER_ROLES = Resource(
    group="rbac.authorization.k8s.io", version="v1", kind="ClusterRole", plural="clusterroles", namespaced=False
)
WIDGETS = Resource(group="kube.example.com", version="v1", kind="Widget", plural="widgets", namespaced=True)


class HastyClock(SystemClock):
    """Backs off for a moment only."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, 0.05))


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Client]:
    async with Client(await credentials.load(str(cluster.kubeconfig))) as made:
        yield made


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": data or {}}


async def applied(client: Client, namespace: str, body: dict[str, Any]) -> LiveObject:
    result = await client.apply(CONFIG_MAPS, namespace, body["metadata"]["name"], encode(body))
    return result.live


async def widget(client: Client, namespace: str, name: str, spec: object = None) -> LiveObject:
    body = {"apiVersion": "kube.example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec or {}}
    return (await client.apply(WIDGETS, namespace, name, encode(body))).live


# Encoding


@pytest.mark.exhaustive
async def test_every_character_of_the_basic_plane_comes_back_as_it_was_sent(client: Client, namespace: str) -> None:
    for start in range(0, 0x10000, 0x1000):
        characters = [chr(point) for point in range(start, start + 0x1000) if not 0xD800 <= point <= 0xDFFF]
        if not characters:
            continue
        # Each for itself between letters too: folding and trimming happen at the edges of strings and of lines.
        data = {"joined": "".join(characters), "apart": "a".join(characters), "edges": "\n".join(characters)}
        body = config_map(f"plane-{start:x}", data, annotations={"a": "".join(characters)})
        live = await applied(client, namespace, body)
        assert live.body["data"] == data
        assert live.metadata.annotations["a"] == body["metadata"]["annotations"]["a"]


# What YAML, JSON or Unicode gives a meaning of its own.
MEANINGFUL = (
    "\x00\x07\t\n\r\x1b\x7f\x80\x85\x9f\xa0\u2028\u2029\ufeff\ufffe\uffff\U0001f600\U0010ffff/\\\"'{}[]:,#&*!|>%@`? -"
)
NASTY = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from(MEANINGFUL))


@pytest.mark.exhaustive
async def test_whatever_text_is_applied_comes_back_exactly(client: Client, namespace: str) -> None:
    loop = asyncio.get_running_loop()

    @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.dictionaries(st.sampled_from(["a", "b.c", "D_e"]), NASTY), NASTY)
    def check(data: dict[str, str], annotation: str) -> None:
        body = config_map("nasty", data, annotations={"note": annotation})
        live = asyncio.run_coroutine_threadsafe(applied(client, namespace, body), loop).result(30)
        assert live.body.get("data", {}) == data
        assert live.metadata.annotations["note"] == annotation

    await asyncio.to_thread(check)


def is_key(key: str) -> bool:
    """Whether the API server can read it as a key of an apply."""
    return key != "" and encoded_length(key) <= KEY_LIMIT


def encoded_length(key: str) -> int:
    """The characters of a key in the body of a request, with its quotes."""
    return len(encode({key: None}).decode()) - len("{:null}")


JSON_VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(-(2.0**53), 2.0**53) | NASTY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NASTY.filter(is_key), inner, max_size=3),
    max_leaves=10,
)


@pytest.mark.exhaustive
async def test_numbers_and_structures_of_a_custom_resource_come_back_as_they_were(
    client: Client, namespace: str, widgets: Resource
) -> None:
    loop = asyncio.get_running_loop()

    # An object each: an empty mapping applied over something else in a field without a schema comes back as null.
    numbers = itertools.count()

    @settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(JSON_VALUES)
    def check(value: object) -> None:
        live = asyncio.run_coroutine_threadsafe(
            widget(client, namespace, f"w{next(numbers)}", {"x": value}), loop
        ).result(30)
        assert live.body["spec"]["x"] == value

    await asyncio.to_thread(check)


@pytest.mark.more_cases
@pytest.mark.parametrize("character", ["a", "\u4e2d", "\U0001f600"])
async def test_a_key_of_the_documented_length_comes_back_and_a_longer_one_is_refused(
    client: Client, namespace: str, widgets: Resource, character: str
) -> None:
    longest = character * ((KEY_LIMIT - 2) // (encoded_length(character) - 2))
    live = await widget(client, namespace, "long", {"x": {longest: "1"}})
    assert live.body["spec"]["x"] == {longest: "1"}
    with pytest.raises(ApiError, match="error converting YAML to JSON"):
        await widget(client, namespace, "longer", {"x": {longest + character: "1"}})


# Requests


async def test_an_apply_creates_then_changes_then_changes_nothing(client: Client, namespace: str) -> None:
    body = config_map("a", {"x": "1"})
    first = await client.apply(CONFIG_MAPS, namespace, "a", encode(body))
    second = await client.apply(CONFIG_MAPS, namespace, "a", encode(config_map("a", {"x": "2"})))
    third = await client.apply(CONFIG_MAPS, namespace, "a", encode(config_map("a", {"x": "2"})))
    assert (first.created, second.created, third.created) == (True, False, False)
    assert first.live.resource_version != second.live.resource_version == third.live.resource_version
    assert [each.manager for each in third.live.managed_fields] == [MANAGER]
    assert (await client.get(CONFIG_MAPS, "a", namespace)).body == third.live.body


async def test_a_dry_run_changes_nothing(client: Client, namespace: str) -> None:
    result = await client.apply(CONFIG_MAPS, namespace, "a", encode(config_map("a")), ApplyOptions(dry_run=True))
    assert result.live.identity.name == "a"
    with pytest.raises(ApiError) as found:
        await client.get(CONFIG_MAPS, "a", namespace)
    assert found.value.not_found


async def test_names_with_odd_characters_reach_their_object(client: Client, namespace: str) -> None:
    name = f"system:{namespace}:reader"
    body = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [],
    }
    live = (await client.apply(CLUSTER_ROLES, "", name, encode(body))).live
    assert (await client.get(CLUSTER_ROLES, name)).uid == live.uid
    assert await client.delete(CLUSTER_ROLES, "", name, DeleteOptions(uid=live.uid)) is None


async def test_warnings_reach_the_caller(client: Client, namespace: str) -> None:
    labels = {"app": "a"}
    pod = {
        "containers": [{"name": "c", "image": "i"}],
        "nodeSelector": {"beta.kubernetes.io/arch": "amd64"},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    result = await client.apply(DEPLOYMENTS, namespace, "a", encode(body))
    assert any("beta.kubernetes.io/arch" in each for each in result.warnings)


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ({**config_map("a"), "dta": {}}, 500, ".dta: field not declared in schema"),
        ({**config_map("a"), "data": {"x": 5}}, 500, ".data.x: expected string"),
        (config_map("A"), 422, "metadata.name"),
        (config_map("a", {"a b": ""}), 422, "data[a b]"),
        (config_map("a", managedFields=[]), 400, "managedFields must be nil"),
    ],
)
async def test_an_invalid_manifest_is_a_terminal_error_that_names_the_field(
    client: Client, namespace: str, body: dict[str, Any], code: int, words: str
) -> None:
    with pytest.raises(ApiError) as found:
        await client.apply(CONFIG_MAPS, namespace, body["metadata"]["name"], encode(body))
    assert (found.value.code, found.value.terminal) == (code, True)
    assert words in str(found.value)


async def test_a_missing_namespace_and_a_missing_resource_are_different_errors(client: Client) -> None:
    with pytest.raises(ApiError) as found:
        await client.apply(CONFIG_MAPS, "nowhere", "a", encode(config_map("a")))
    assert found.value.not_found
    unserved = Resource(group="no.example.com", version="v1", kind="No", plural="noes", namespaced=True)
    body = {"apiVersion": "no.example.com/v1", "kind": "No", "metadata": {"name": "a"}}
    with pytest.raises(ApiError) as found:
        await client.apply(unserved, "default", "a", encode(body))
    assert found.value.unknown_resource


async def test_a_namespace_that_is_being_deleted_refuses_for_now(
    client: Client, namespace: str, kubectl: Kubectl
) -> None:
    await applied(client, namespace, config_map("held", finalizers=["kube.example.com/hold"]))
    await asyncio.to_thread(kubectl, "delete", "namespace", namespace, "--wait=false")
    with pytest.raises(ApiError) as found:
        await applied(client, namespace, config_map("a"))
    assert found.value.namespace_terminating
    assert not found.value.terminal
    await applied(client, namespace, config_map("held", finalizers=[]))


SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({**SECRET, "data": {"password": 12345678}}, ".data.password"),
        ({**SECRET, "data": {"password": "%hunter2%"}}, "Secret"),
        ({**SECRET, "type": "hunter2"}, "field is immutable"),
        ({**SECRET, "type": "Opaque", "hunter2": "x"}, ""),
        ({**SECRET, "stringData": {"hunter2 hunter2": "x"}}, ""),
        ({**SECRET, "stringData": {"tls": ["hunter2"]}}, ".stringData.tls"),
    ],
)
async def test_an_error_about_a_secret_never_shows_its_content(
    client: Client, namespace: str, body: dict[str, Any], words: str
) -> None:
    await client.apply(SECRETS, namespace, "s", encode({**SECRET, "type": "Opaque", "data": {"password": "aHVudGVy"}}))
    with pytest.raises(ApiError) as found:
        await client.apply(SECRETS, namespace, "s", encode(body))
    said = f"{found.value} {found.value!r} {found.value.causes}"
    assert words in said
    values = json.dumps([value for value in body.values() if value != "Opaque"])
    assert "12345678" not in said
    if "hunter2" in values and "hunter2" not in json.dumps(list(body.get("stringData", {}))):
        assert "hunter2" not in said


async def test_a_delete_never_deletes_a_recreated_object(client: Client, namespace: str) -> None:
    live = await applied(client, namespace, config_map("a"))
    with pytest.raises(ApiError) as found:
        await client.delete(CONFIG_MAPS, namespace, "a", DeleteOptions(uid="another"))
    assert found.value.conflict
    assert await client.delete(CONFIG_MAPS, namespace, "a", DeleteOptions(uid=live.uid)) is None
    assert await client.delete(CONFIG_MAPS, namespace, "a", DeleteOptions(uid=live.uid)) is None


async def test_a_delete_returns_the_object_that_finalizers_keep(client: Client, namespace: str) -> None:
    live = await applied(client, namespace, config_map("a", finalizers=["kube.example.com/hold"]))
    going = await client.delete(CONFIG_MAPS, namespace, "a", DeleteOptions(uid=live.uid))
    assert going is not None
    assert going.deleting
    await applied(client, namespace, config_map("a", finalizers=[]))


async def test_a_merge_patch_with_an_old_version_is_a_conflict(client: Client, namespace: str) -> None:
    live = await applied(client, namespace, config_map("a"))
    await applied(client, namespace, config_map("a", {"x": "1"}))
    body = encode({"metadata": {"resourceVersion": live.resource_version, "labels": {"a": "b"}}})
    with pytest.raises(ApiError) as found:
        await client.send(calls.merge_patch(CONFIG_MAPS, namespace, "a", body))
    assert found.value.conflict


async def test_creating_an_existing_object_is_already_exists(client: Client, namespace: str) -> None:
    assert (await client.create(CONFIG_MAPS, namespace, encode(config_map("a")))).created
    with pytest.raises(ApiError) as found:
        await client.create(CONFIG_MAPS, namespace, encode(config_map("a")))
    assert found.value.already_exists


async def test_a_list_in_pages_is_the_whole_list(client: Client, namespace: str) -> None:
    for number in range(7):
        await applied(client, namespace, config_map(f"a{number}", labels={"odd": str(number % 2)}))
    everything, version = await client.list(CONFIG_MAPS, namespace, limit=3)
    odd, _ = await client.list(CONFIG_MAPS, namespace, "odd=1", limit=2)
    assert {each.identity.name for each in everything} >= {f"a{number}" for number in range(7)}
    assert {each.identity.name for each in odd} == {"a1", "a3", "a5"}
    assert int(version) >= max(int(each.resource_version) for each in everything)


# Discovery


async def test_built_in_and_custom_resources_are_found(client: Client, widgets: Resource) -> None:
    mapper = RESTMapper(client)
    deployments = await mapper.resource(GroupKind("apps", "Deployment"))
    assert (deployments.name, deployments.namespaced) == ("deployments.apps", True)
    assert deployments.subresources == {"scale", "status"}
    assert (await mapper.resource_by_name("namespaces")).namespaced is False
    assert (await mapper.resource(GroupKind("kube.example.com", "Widget"))).plural == widgets.plural
    with pytest.raises(UnknownKind, match=r"no Gadget in kube\.example\.com"):
        await mapper.resource(GroupKind("kube.example.com", "Gadget"))


async def test_the_api_server_sends_an_unchanged_discovery_only_once(cluster: Cluster, widgets: Resource) -> None:
    answers = Answers()
    async with Client(await credentials.load(str(cluster.kubeconfig))) as client:
        client.observer = answers
        mapper = RESTMapper(client)
        first = await mapper.resource(GroupKind("kube.example.com", "Widget"))
        async with asyncio.timeout(30):
            while 304 not in answers.codes:  # another test may have changed a CRD just now
                answers.codes.clear()
                mapper.invalidate()
                assert await mapper.resource(GroupKind("kube.example.com", "Widget")) == first
    assert first.plural == widgets.plural


class Answers(NoObserver):
    """The codes of all answers."""

    def __init__(self) -> None:
        self.codes: list[int] = []

    def answered(self, request: calls.Request, code: int, seconds: float) -> None:  # noqa: ARG002
        self.codes.append(code)


# Watches


DEFAULT_TIMING = ReflectorTiming()


class Watching:
    """A running reflector and what its cache told."""

    def __init__(self, reflector: Reflector) -> None:
        self.reflector = reflector
        self.cache = reflector.cache
        self.task: asyncio.Task[None]
        self._changed = asyncio.Event()
        self.told: list[tuple[str, str]] = []
        self.cache.listen(self._tell)
        reflector.listen(lambda _: self._changed.set())

    def _tell(self, old: LiveObject | None, new: LiveObject | None) -> None:
        either = new or old
        assert either is not None
        self.told.append((either.identity.name, "gone" if new is None else "new" if old is None else "changed"))
        self._changed.set()

    def state(self) -> ReflectorState:
        return self.reflector.state

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(30):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


@asynccontextmanager
async def watching(client: Client, scope: Scope, timing: ReflectorTiming = DEFAULT_TIMING) -> AsyncIterator[Watching]:
    made = Watching(Reflector(client, scope, Cache(), timing=timing, clock=HastyClock()))
    made.task = asyncio.create_task(made.reflector.run())
    try:
        async with asyncio.timeout(30):
            await made.reflector.synced_or_unavailable()
        yield made
    finally:
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


async def test_a_cache_follows_what_happens(client: Client, namespace: str) -> None:
    await applied(client, namespace, config_map("before"))
    async with watching(client, Scope(CONFIG_MAPS, namespace)) as it:
        assert it.cache.get(namespace, "before") is not None
        live = await applied(client, namespace, config_map("a"))
        await applied(client, namespace, config_map("a", {"x": "1"}))
        await client.delete(CONFIG_MAPS, namespace, "a", DeleteOptions(uid=live.uid))
        await it.until(lambda: ("a", "gone") in it.told)
        assert [each for each in it.told if each[0] == "a"] == [("a", "new"), ("a", "changed"), ("a", "gone")]
        # The feature WatchList is beta.
        assert it.reflector._streams_lists is not STABLE_ONLY


async def test_only_the_labelled_objects_of_the_namespace_are_followed(client: Client, namespace: str) -> None:
    labels = {PARENT_UID_LABEL: "p"}
    async with watching(client, Scope(CONFIG_MAPS, namespace, PARENT_UID_LABEL)) as it:
        await applied(client, namespace, config_map("plain"))
        await applied(client, namespace, config_map("child", labels=labels))
        await it.until(lambda: it.cache.by_parent("p"))
        assert [each.identity.name for each in it.cache] == ["child"]
        await applied(client, namespace, config_map("child"))
        await it.until(lambda: ("child", "gone") in it.told)
        assert it.told == [("child", "new"), ("child", "gone")]


async def test_a_listener_gets_foreign_changes_and_not_the_echo_of_an_own_write(
    client: Client, namespace: str, kubectl: Kubectl
) -> None:
    async with watching(client, Scope(CONFIG_MAPS, namespace)) as it:
        it.told.clear()
        with it.cache.writing(namespace, "a"):
            it.cache.written(await applied(client, namespace, config_map("a")))
        assert it.cache.get(namespace, "a") is not None
        await asyncio.to_thread(kubectl, "-n", namespace, "annotate", "configmap", "a", "by=hand")
        # The controller manager adds kube-root-ca.crt to a new namespace, perhaps only now.
        await it.until(lambda: any(name == "a" for name, _ in it.told))
        assert [each for each in it.told if each[0] == "a"] == [("a", "changed")]


async def test_pages_and_streamed_lists_fill_the_cache_alike(client: Client, namespace: str) -> None:
    for number in range(3):
        await applied(client, namespace, config_map(f"a{number}"))
    async with watching(client, Scope(CONFIG_MAPS, namespace)) as streamed:
        paged = Watching(Reflector(client, Scope(CONFIG_MAPS, namespace), Cache()))
        paged.reflector._streams_lists = False
        paged.task = asyncio.create_task(paged.reflector.run())
        await paged.reflector.synced_or_unavailable()
        paged.task.cancel()
        await asyncio.gather(paged.task, return_exceptions=True)
        assert {(each.identity, each.resource_version) for each in paged.cache} == {
            (each.identity, each.resource_version) for each in streamed.cache
        }


async def test_a_deletion_during_an_expired_watch_is_delivered(
    client: Client, namespace: str, widgets: Resource
) -> None:
    live = await widget(client, namespace, "a")
    async with watching(client, Scope(widgets, namespace)) as it:
        it.task.cancel()
        await asyncio.gather(it.task, return_exceptions=True)
        await client.delete(widgets, namespace, "a", DeleteOptions(uid=live.uid))
        await widget(client, namespace, "b")
        # Older than what the API server remembers of this resource, which came late: it answers with its real 410.
        it.reflector._version = "1"
        it.task = asyncio.create_task(it.reflector.run())
        await it.until(lambda: ("b", "new") in it.told)
        assert ("a", "gone") in it.told
        # The API server refuses the first stream of a list if it lacks the beta feature WatchList.
        assert it.reflector.restarts == (3 if STABLE_ONLY else 2)


@pytest.mark.exhaustive
async def test_the_reflector_continues_a_watch_that_the_server_ends_without_a_gap(
    client: Client, namespace: str
) -> None:
    async with watching(client, Scope(CONFIG_MAPS, namespace), ReflectorTiming(min_timeout=1, max_timeout=1)) as it:
        for number in range(30):
            await applied(client, namespace, config_map("a", {"x": str(number)}))
            await asyncio.sleep(0.05)
        await it.until(lambda: it.told.count(("a", "changed")) == 29)
        assert it.reflector.restarts >= 1


@pytest.fixture
def widgets(kubectl: Kubectl, tmp_path: Path) -> Resource:
    kubectl("apply", "-f", str(definition(tmp_path)))
    kubectl("wait", "--for=condition=Established", "crd/widgets.kube.example.com", "--timeout=30s")
    return WIDGETS


def definition(folder: Path, group: str = "kube.example.com") -> Path:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    file = folder / f"{group}.yaml"
    file.write_text(yaml.safe_dump(body))
    return file


@pytest.mark.exhaustive
async def test_a_crd_can_be_created_deleted_and_created_again_while_its_resource_is_watched(
    client: Client, namespace: str, kubectl: Kubectl, tmp_path: Path
) -> None:
    resource = Resource(group="late.example.com", version="v1", kind="Widget", plural="widgets", namespaced=True)
    file = str(definition(tmp_path, "late.example.com"))
    body = {"apiVersion": "late.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    async with watching(client, Scope(resource, namespace)) as it:
        assert (it.reflector.state, it.reflector.synced.is_set()) == (ReflectorState.MISSING, False)
        for _ in range(2):
            await asyncio.to_thread(kubectl, "apply", "-f", file)
            await it.until(lambda: it.reflector.state is ReflectorState.WATCHING)
            await client.apply(resource, namespace, "w", encode(body))
            await it.until(lambda: it.cache.get(namespace, "w") is not None)
            await asyncio.to_thread(kubectl, "delete", "-f", file)
            await it.until(lambda: it.reflector.state is ReflectorState.MISSING and not it.reflector.synced.is_set())
    assert it.told[:2] == [("w", "new"), ("w", "gone")]


async def test_a_missing_permission_is_a_problem_and_the_watch_starts_once_it_is_granted(
    cluster: Cluster, namespace: str, kubectl: Kubectl, tmp_path: Path
) -> None:
    body = yaml.safe_load(cluster.kubeconfig.read_text())
    for user in body["users"]:
        user["user"]["as"] = f"nobody-{namespace}"
    restricted = cluster.kubeconfig.with_name(f"{namespace}.yaml")
    restricted.write_text(yaml.safe_dump(body))
    async with (
        Client(await credentials.load(str(restricted))) as nobody,
        watching(nobody, Scope(CONFIG_MAPS, namespace)) as it,
    ):
        assert it.state() is ReflectorState.FORBIDDEN
        assert f'User "nobody-{namespace}" cannot watch resource "configmaps"' in it.reflector.problem
        with pytest.raises(ApiError) as found:
            await applied(nobody, namespace, config_map("a"))
        assert found.value.forbidden
        assert found.value.terminal
        await asyncio.to_thread(
            kubectl,
            "-n",
            namespace,
            "create",
            "rolebinding",
            "all",
            "--clusterrole=admin",
            f"--user=nobody-{namespace}",
        )
        await it.until(lambda: it.state() is ReflectorState.WATCHING)
        assert it.reflector.problem == ""


@pytest.mark.exhaustive
async def test_many_objects_arrive_once_each(client: Client, namespace: str) -> None:
    async with watching(client, Scope(CONFIG_MAPS, namespace)) as it:
        await asyncio.gather(*(applied(client, namespace, config_map(f"a{number}")) for number in range(200)))
        # The namespace has a ConfigMap of Kubernetes' own, too.
        await it.until(lambda: sum(1 for live in it.cache if live.identity.name.startswith("a")) >= 200)
        own = [each for each in it.told if each[0].startswith("a")]
        assert len(own) == len(set(own)) == 200
