"""`--conversion`: objects of a CRD with two versions of different fields, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.informers.crds import RESOURCE
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.clock import SYSTEM
from ssa_operator.objects.annotations import UNCONVERTED, not_converted
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.conversion.folder_converters import converter_of
from ssa_operator.operator.crd_files import load_crds, schema_files
from ssa_operator.operator.crd_installation import CRDInstaller, conversion_remark
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.permissions.operator_needs import CONVERSION
from ssa_operator.operator.storage_migration import MigrationError, migrate
from ssa_operator.operator.stored_objects import CRDPlan, plan_crds
from ssa_operator.operator.webhooks.conversion_webhook import ConversionWebhook
from ssa_operator.operator.webhooks.shared_certificate import KeptCertificate, new_certificate
from ssa_operator.rendering.folder.installation import Installation
from tests.operator.admission_policies import validating
from tests.operator.conversion.sites import OLD_SCHEMA, SCHEMA, TO_V1, TO_V1ALPHA1, kept, write
from tests.operator.harness import PATIENCE, Desk, operating, ready_condition

pytestmark = pytest.mark.cluster


@dataclass
class Sites:
    """The Sites of a test's own group, as users of both versions see them."""

    desk: Desk
    group: str
    templates: Path
    port: int

    def resource(self, version: str) -> Resource:
        return Resource(group=self.group, version=version, kind="Site", plural="sites", namespaced=True)

    async def get(self, version: str, name: str = "web") -> dict[str, Any]:
        live = await self.desk.client.get(self.resource(version), name, self.desk.namespace)
        return live.body

    async def apply(self, version: str, manager: str, spec: dict[str, Any], name: str = "web") -> dict[str, Any]:
        """What `kubectl apply --server-side` of a manager gives."""
        body = {"apiVersion": f"{self.group}/{version}", "kind": "Site", "metadata": {"name": name}, "spec": spec}
        options = ApplyOptions(manager=manager)
        answer = await self.desk.client.apply(self.resource(version), self.desk.namespace, name, encode(body), options)
        return answer.body if isinstance(answer, LiveObject) else await self.get(version, name)

    async def crd(self) -> dict[str, Any]:
        live = await self.desk.client.get(RESOURCE, f"sites.{self.group}")
        return live.body

    @contextlib.asynccontextmanager
    async def converting(self, namespace: str = "", service: tuple[str, int] | None = None) -> AsyncIterator[None]:
        """An operator that converts, in a namespace of its own if that is given, once the CRD has its address."""
        port = 0 if namespace else self.port
        options = Options(
            templates=(self.templates,),
            namespaces=(self.desk.namespace,),
            installation=Installation(namespace=namespace or self.desk.namespace),
            selector="a=b" if namespace else "",
            conversion=("127.0.0.1", port),
            conversion_service=service,
            listen=None,
        )
        async with operating(self.desk.client, options) as running:
            serving = asyncio.create_task(ConversionWebhook(running.operator, "127.0.0.1", port).run())
            try:
                async with asyncio.timeout(PATIENCE):
                    wanted = "url" if service is None else "service"
                    while wanted not in (await self.crd())["spec"]["conversion"]["webhook"]["clientConfig"]:
                        assert not serving.done(), serving.exception()
                        await asyncio.sleep(0.05)
                yield
            finally:
                serving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await serving

    async def until_converted(
        self, version: str, name: str = "web", accept: Callable[[dict[str, Any]], bool] = lambda _: True
    ) -> dict[str, Any]:
        """The object, once the API server knows who converts it, and `accept` accepts it."""
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    if accept(found := await self.get(version, name)):
                        return found
                except Exception as error:  # noqa: BLE001 - any other is the last one at the deadline
                    refused = error
                await asyncio.sleep(0.05)
        raise refused

    async def plan(self) -> CRDPlan:
        documents = load_crds(*schema_files([self.templates]))
        return await plan_crds(self.desk.client, documents, converter_of([self.templates]))

    async def until_logged(self, caplog: pytest.LogCaptureFixture, words: str) -> None:
        async with asyncio.timeout(PATIENCE):
            while words not in caplog.text:  # noqa: ASYNC110 - a log has no event
                await asyncio.sleep(0.05)

    def convert(self, name: str, text: str) -> None:
        (self.templates / f"sites.{self.group}" / "_convert" / name).write_text(text)


@pytest.fixture
async def sites(desk: Desk, group: str, tmp_path: Path, unused_tcp_port: int) -> AsyncIterator[Sites]:
    templates = write(tmp_path, name=f"sites.{group}")
    found = Sites(desk, group, templates, unused_tcp_port)
    yield found
    # Nothing else can delete objects that only the operator of this test converts.
    await desk.client.merge_patch(
        RESOURCE, "", f"sites.{group}", b'{"spec":{"conversion":{"strategy":"None","webhook":null}}}'
    )


async def install(client: Client, templates: Path) -> dict[str, str]:
    installer = CRDInstaller(client, [], [templates])
    await installer.install()
    return dict(installer.refused)


async def test_an_object_of_one_version_is_read_watched_and_written_in_the_other(
    desk: Desk, client: Client, sites: Sites, caplog: pytest.LogCaptureFixture
) -> None:
    folder = sites.templates / f"sites.{sites.group}"
    (folder / "_schema.yaml").write_text(OLD_SCHEMA)
    assert await install(client, sites.templates) == {}
    await sites.apply("v1alpha1", "a", {"image": "x", "count": 4, "size": "large"}, "old")

    # The new CRD drops nothing while no operator answers.
    (folder / "_schema.yaml").write_text(SCHEMA)
    sites.convert("v1alpha1-to-v1.yaml.j2", TO_V1.replace("spec.image", "fail('no image')"))
    plan = await sites.plan()
    (refused,) = plan.refused
    where = f"sites.{sites.group}/_convert/v1alpha1-to-v1.yaml.j2:2: no image"
    assert str(refused) == f"{desk.namespace}/old: can't be converted to v1: {where}"
    assert where in (await install(client, sites.templates))[f"sites.{sites.group}"]
    sites.convert("v1alpha1-to-v1.yaml.j2", TO_V1.replace("{{ spec.image }}", "y"))
    plan = await sites.plan()
    assert (plan.objects, plan.refused, [each.path for each in plan.lossy]) == (1, (), ["spec.image"])
    sites.convert("v1alpha1-to-v1.yaml.j2", TO_V1)
    assert (await sites.plan()).lossy == ()
    assert await install(client, sites.templates) == {}
    with pytest.raises(Exception, match="conversion webhook"):
        await sites.get("v1", "old")
    (document,) = load_crds(*schema_files([sites.templates]))
    remark = conversion_remark(document, await sites.crd())
    assert remark is not None
    assert "in v1alpha1, and in v1 the objects that are stored in v1alpha1" in remark

    async with sites.converting():
        old = await sites.until_converted("v1", "old")
        assert (old["spec"], list(kept(old))) == ({"image": "x", "replicas": {"min": 4}}, ["v1alpha1"])
        assert (await sites.get("v1alpha1", "old"))["spec"] == {"image": "x", "count": 4, "size": "large"}
        view = await desk.view(f"sites.{sites.group}")
        await view.until("old", lambda body: body["apiVersion"].endswith("/v1"))
        await desk.until("configmaps", "old", lambda body: body["data"] == {"image": "x"})

        # Two managers own fields by the version that each writes.
        await sites.apply("v1alpha1", "a", {"image": "x", "count": 2, "size": "large"})
        await view.until("web", lambda body: body["spec"]["replicas"] == {"min": 2})
        await sites.apply("v1", "b", {"image": "x", "replicas": {"max": 5}})
        found = await sites.apply("v1alpha1", "a", {"image": "x", "count": 3})
        assert found["spec"] == {"image": "x", "count": 3}
        found = await sites.get("v1")
        assert found["spec"] == {"image": "x", "replicas": {"min": 3, "max": 5}}
        owners = {(each["manager"], each["apiVersion"]) for each in found["metadata"]["managedFields"]}
        assert {("a", f"{sites.group}/v1alpha1"), ("b", f"{sites.group}/v1")} <= owners
        found = await sites.apply("v1", "b", {"image": "x"})
        assert found["spec"] == {"image": "x", "replicas": {"min": 3}}
        listed, _ = await client.list(sites.resource("v1alpha1"), desk.namespace)
        assert {each.identity.name: each.body["spec"]["count"] for each in listed} == {"old": 4, "web": 3}

        # No field travels alone, but while the API server finds out who owns what.
        for version in ("v1", "v1alpha1"):
            annotations = (await sites.get(version))["metadata"].get("annotations", {})
            assert not [each for each in annotations if each.startswith(f"{UNCONVERTED}-")]

        # Another operator leaves the CRD to this one.
        conversion = (await sites.crd())["spec"]["conversion"]
        async with sites.converting(namespace="default"):
            await sites.until_logged(caplog, f"the operator in the namespace {desk.namespace} converts sites.")
        assert (await sites.crd())["spec"]["conversion"] == conversion
        async with desk.elsewhere("default") as other:
            await other.delete("secrets", CONVERSION)

        # The operator's status is there for both, and a write that changes nothing is none.
        resource = f"sites.{sites.group}"
        ready = await desk.ready(resource, "web")
        read = await sites.get("v1alpha1")
        assert read["status"] == ready["status"]
        await client.merge_patch(sites.resource("v1alpha1"), desk.namespace, "web", b"{}")
        assert (await sites.get("v1"))["metadata"]["resourceVersion"] == read["metadata"]["resourceVersion"]

        # An object that can't be converted says so, and stops no list.
        sites.convert("v1-to-v1alpha1.yaml.j2", "spec:\n  image: {{ fail('not today') }}\n")
        found = await sites.until_converted("v1alpha1", accept=lambda body: not_converted(body) is not None)
        mark = not_converted(found)
        assert mark is not None
        assert (mark.version, found.get("spec")) == ("v1", None)
        assert mark.message == f"sites.{sites.group}/_convert/v1-to-v1alpha1.yaml.j2:2: not today"
        assert len((await client.list(sites.resource("v1alpha1"), desk.namespace))[0]) == 2
        sites.convert("v1-to-v1alpha1.yaml.j2", TO_V1ALPHA1)
        await sites.until_converted("v1alpha1", accept=lambda body: not_converted(body) is None)

    assert (await sites.get("v1"))["spec"]["replicas"] == {"min": 3}
    with pytest.raises(Exception, match="conversion webhook"):
        await sites.get("v1alpha1")
    before = (await sites.crd())["metadata"]["generation"]
    assert await install(client, sites.templates) == {}

    async with sites.converting():
        await sites.until_converted("v1alpha1")
        assert (await sites.crd())["metadata"]["generation"] == before
        assert await migrate(client, resource) == ["v1alpha1"]
        assert (await sites.crd())["status"]["storedVersions"] == ["v1"]
        assert (await sites.get("v1alpha1", "old"))["spec"] == {"image": "x", "count": 4, "size": "large"}
        for name in ("web", "old"):
            await desk.delete(resource, name)

    # A Service takes the place of the URL.
    async with sites.converting(service=("converter", 8443)):
        client_config = (await sites.crd())["spec"]["conversion"]["webhook"]["clientConfig"]
        assert "url" not in client_config
        assert client_config["caBundle"]
        service = client_config["service"]
        assert service.pop("path").startswith("/convert/")
        assert service == {"namespace": desk.namespace, "name": "converter", "port": 8443}

        # A CRD that needs no conversion is given back.
        for path in (folder / "_convert").iterdir():
            path.unlink()
        (folder / "_schema.yaml").write_text(
            SCHEMA.partition("versions:")[0] + "types:" + SCHEMA.partition("types:")[2]
        )
        assert await install(client, sites.templates) == {}
        await desk.until(
            "customresourcedefinitions.apiextensions.k8s.io",
            resource,
            lambda body: body["spec"]["conversion"] == {"strategy": "None"},
        )


async def test_a_stored_object_that_can_not_be_converted_is_named_and_stops_no_other(
    desk: Desk, client: Client, sites: Sites
) -> None:
    schema, resource = sites.templates / f"sites.{sites.group}" / "_schema.yaml", f"sites.{sites.group}"
    schema.write_text(OLD_SCHEMA)
    assert await install(client, sites.templates) == {}
    for name in ("bad", "good", "web"):
        await sites.apply("v1alpha1", "a", {"image": name, "count": 4, "size": "large"}, name)
    schema.write_text(SCHEMA)
    refuses_bad = TO_V1.replace("{{ spec.image }}", "{{ fail('not this one') if spec.image == 'bad' else spec.image }}")
    sites.convert("v1alpha1-to-v1.yaml.j2", refuses_bad)
    assert "not this one" in (await install(client, sites.templates))[resource]
    await CRDInstaller(client, [], [sites.templates], keep_data=False).install()

    async with sites.converting():
        await desk.until("configmaps", "good", lambda body: body["data"] == {"image": "good"})
        view = await desk.view(resource)
        found = await view.until("bad", lambda body: "not this one" in ready_condition(body).get("message", ""))
        assert (
            f"can't be converted from v1alpha1: {resource}/_convert/v1alpha1-to-v1.yaml.j2:2"
            in (ready_condition(found)["message"])
        )
        assert (await sites.get("v1alpha1", "bad"))["spec"] == {"image": "bad", "count": 4, "size": "large"}

        # Neither this one nor one that a policy refuses stops the migration of the others.
        probe = {"metadata": {"labels": {"a": "b"}}}
        policy = validating(desk, sites.group, "sites", "object.metadata.name != 'web'", "'no'", probe=probe)
        async with policy:
            with pytest.raises(MigrationError) as failed:
                await migrate(client, resource)
        first, *others = str(failed.value).splitlines()
        assert first == f"{resource}: 2 of 3 objects can't be stored in v1:"
        assert ["not this one" in others[0], "denied request: no" in others[1]] == [True, True], others
        assert (await sites.crd())["status"]["storedVersions"] == ["v1alpha1", "v1"]

        # The operator converts it once the template can.
        sites.convert("v1alpha1-to-v1.yaml.j2", TO_V1)
        await desk.until("configmaps", "bad", lambda body: body["data"] == {"image": "bad"})
        assert (await sites.get("v1", "bad"))["spec"]["replicas"] == {"min": 4}
        former: Sequence[str] = ()
        async with asyncio.timeout(PATIENCE):
            while not former:  # the API server applies the policy for a moment after its deletion
                try:
                    former = await migrate(client, resource)
                except MigrationError as error:
                    if "denied request: no" not in str(error):
                        raise
                    await asyncio.sleep(0.05)
        assert former == ["v1alpha1"]

        # Now an object of v1alpha1 is one that is being written.
        sites.convert("v1alpha1-to-v1.yaml.j2", refuses_bad)
        async with asyncio.timeout(PATIENCE):
            message = ""
            while "not this one" not in message:
                try:
                    await sites.apply("v1alpha1", "a", {"image": "bad", "count": 4}, "worse")
                    await desk.delete(resource, "worse")
                except ApiError as error:
                    message = str(error)
                await asyncio.sleep(0.05)
        sites.convert("v1alpha1-to-v1.yaml.j2", TO_V1)
        for name in ("bad", "good", "web"):
            await desk.delete(resource, name)


async def test_the_key_of_the_seals_outlives_its_secret(desk: Desk) -> None:
    def store() -> KeptCertificate:
        return KeptCertificate(desk.client, desk.namespace, SYSTEM.now, name="seals")

    running = store()
    first = await running.current()
    assert await store().current() == first
    await desk.delete("secrets", "seals")
    assert await running.current() == first
    assert await store().current() == first
    await desk.patch("secrets", "seals", data={"seal": None})
    assert (await running.current()).seal == first.seal
    # What another operator has written counts for all.
    other = new_certificate(f"*.{desk.namespace}.svc", SYSTEM.now())
    await desk.patch("secrets", "seals", data=other.data)
    assert await running.current() == other
    await desk.delete("secrets", "seals")
    assert await running.current() == other
