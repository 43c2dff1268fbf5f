"""The conversion webhook of a running operator: how it answers, and `spec.conversion` of the CRDs.

Promises:
- A review is converted as a whole, in the order of its objects, or the answer has one message: that of the first object
  that can't be converted.
- The templates that convert are the last good ones of each folder.
- A CRD whose folder converts names this webhook. The operator applies that to `spec.conversion` alone, with a field
  manager of its own, and only if it is not so already.
- The operator removes its `spec.conversion` from a CRD whose versions need no conversion any more, and from no other
  one.
- Two operators don't take `spec.conversion` from each other: the second one says that the first one has it.
- `spec.conversion` stays when the operator stops. So the API server refuses what needs a conversion until an operator
  answers, and loses no field.
- A CRD that can't be written stops no other one. The log has each refusal, and all are tried again.
- A review holds the event loop no longer than the conversion of one small object. Large ones, and slow templates, take
  their turn in the thread of slow renders.
- A parent that can't be converted is converted as soon as the templates can.
- An operator that has only started answers as soon as it has listed the CRDs, whatever else it still waits for.
- No request changes the operator or the cluster.

The form of requests and answers:
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/#webhook-conversion
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.informers.crds import RESOURCE
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, NotLeader, Unreachable
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.annotations import NOT_CONVERTED, not_converted
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.render_result import ConversionError
from ssa_operator.objects.secret_fields import SecretFields
from ssa_operator.operator.conversion.folder_converters import converter
from ssa_operator.operator.conversion.rules import Converter
from ssa_operator.operator.operator import Operator
from ssa_operator.operator.permissions.operator_needs import CONVERSION
from ssa_operator.operator.webhook_reviews import Reviews
from ssa_operator.operator.webhooks.registered_webhook import RegisteredWebhook
from ssa_operator.operator.webhooks.shared_certificate import KeptCertificate, WebhookCertificate
from ssa_operator.reconcile.render_turns import SLOW
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.values import limits
from ssa_operator.schema.crd_schema import needed_conversions

log = logging.getLogger("ssa_operator")

MAX_BYTES = 64 * 1024 * 1024
"""A review may have many objects of up to 3 MiB."""

MAX_REQUESTS = 1024
"""The API server refuses the user's request if it gets no answer, so more of them wait than of other webhooks."""

READ_DEADLINE = 20.0
"""Seconds. The API server waits 30 seconds for the answer."""

START_DEADLINE = 10.0
"""Seconds that a conversion waits for the first list of CRDs."""

SMALL = 4096
"""Bytes of an object whose conversion takes a moment only: some ten microseconds each."""

_CONVERSION = SecretFields((("spec", "conversion"),))


class ConversionRequest(Struct, frozen=True, kw_only=True):
    """A request of the API server."""

    uid: str
    desired: str = msgspec.field(name="desiredAPIVersion")
    """The apiVersion of the answer's objects."""
    objects: list[dict[str, Any]]


REVIEWS = Reviews("apiextensions.k8s.io/v1", "ConversionReview", ConversionRequest)


class ConversionWebhook(RegisteredWebhook):
    """Converts the parents of an operator's folders. It listens on `host` (None: all addresses) and `port`."""

    path, requests, size, deadline = "convert", MAX_REQUESTS, MAX_BYTES, READ_DEADLINE
    name = "conversion webhook"

    def __init__(self, operator: Operator, host: str | None, port: int, clock: Clock = SYSTEM) -> None:
        super().__init__(operator, host, port, operator.options.conversion_service, clock)
        self._key = b""
        self._converters: dict[str, tuple[Templates, Mapping[str, Any], Converter]] = {}
        """The last converter of each CRD, with what it was made of."""
        self._problems: frozenset[str] = frozenset()

    def _kept(self, client: Client) -> KeptCertificate:
        # It outlives the process, so that CRDs need no change at a restart, and so does the key of seals.
        host = None if self._service is not None else self._url_host
        return KeptCertificate(client, self._operator.namespace, self._clock.now, name=CONVERSION, host=host)

    def _use(self, certificate: WebhookCertificate) -> None:
        super()._use(certificate)
        self._key = certificate.seal
        self._converters.clear()

    async def _answer(self, body: bytes) -> dict[str, Any]:
        asked = REVIEWS.read(body)
        objects: list[dict[str, Any]] = []
        version = asked.desired.rpartition("/")[2]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(START_DEADLINE):
                await self._operator.controllers.crds.reflector.synced_or_unavailable()
        for each in asked.objects:
            try:
                objects.append(await self._converted(self._converter(each), each, version))
            except ConversionError as error:
                return _failed(asked.uid, f"{_name(each)}: {error}")
            except Exception as error:  # noqa: BLE001 - the API server gets an answer in any case
                # No traceback: the text of the error may quote the object.
                log.warning("%s was not converted: %s", _name(each), type(error).__name__)
                return _failed(asked.uid, f"{_name(each)}: the operator failed to convert it")
            # Let reconciles and probes go on.
            await asyncio.sleep(0)
        return REVIEWS.answer({"uid": asked.uid, "convertedObjects": objects, "result": {"status": "Success"}})

    async def _converted(self, converter: Converter, body: dict[str, Any], version: str) -> dict[str, Any]:
        """An object in a version. Raises ConversionError."""

        def convert() -> dict[str, Any]:
            return converter.convert_or_mark(body, version)

        if len(encode(body)) <= SMALL:
            interrupt = limits.Interrupt(time.process_time() + SLOW)
            with contextlib.suppress(limits.Interrupted), limits.interruptible(interrupt):
                return convert()
        return await self._operator.shared.cluster.turns.in_thread(convert)

    def _converter(self, body: Mapping[str, Any]) -> Converter:
        """Converts objects of this kind. Raises ConversionError."""
        controllers = self._operator.controllers
        kind = GroupKind.of(str(body["apiVersion"]), str(body["kind"]))
        known = controllers.crds.defined(kind)
        definition = controllers.crds.get(known.name) if known is not None else None
        if known is None or definition is None:
            raise ConversionError(f"the operator doesn't know the CRD of {kind} yet; try again")
        folder = controllers.templates.folders.get(known.name)
        if folder is None or folder.templates is None:
            raise ConversionError(f"the operator has no templates of {known.name} that load; correct them")
        # Comparing the versions of a large CRD takes as long as a conversion.
        known_templates, known_definition, made = self._converters.get(known.name, (None, None, None))
        if made is None or known_templates is not folder.templates or known_definition is not definition:
            made = converter(folder.templates, definition, self._key)
            self._converters[known.name] = (folder.templates, definition, made)
        return made

    async def _register(self, client: Client, config: dict[str, Any]) -> bool:
        wanted = {"strategy": "Webhook", "webhook": {"clientConfig": config, "conversionReviewVersions": ["v1"]}}
        problems: list[str] = []
        refused: list[str] = []
        writes = [(name, partial(self._remove, client, name, crd)) for name, crd in self._unneeded()]
        writes += [(name, partial(self._write, client, name, crd, wanted)) for name, crd in self._crds(problems)]
        for name, write in writes:
            try:
                await write()
            except (NotLeader, Unreachable):
                raise
            except ApiError as error:
                refused.append(f"the CRD {name} does not convert by this operator: {error}")
        for message in (*problems, *refused):
            if message not in self._problems:
                log.error("%s", message)
        self._problems = frozenset((*problems, *refused))
        await self._convert_again(client)
        return not refused

    async def _convert_again(self, client: Client) -> None:
        """Write the marked parents in their own version, which converts them if the templates can do it now."""
        for name, parents in [*self._operator.folders.items()]:
            crd = self._operator.controllers.crds.get(name)
            for live in [each for each in parents if NOT_CONVERTED in each.metadata.annotations]:
                mark = not_converted(live.body)
                if (
                    mark is None
                    or crd is None
                    or mark.version not in [each["name"] for each in crd["spec"]["versions"]]
                ):
                    continue
                resource = replace(parents.served.resource, version=mark.version)
                try:
                    await client.merge_patch(resource, live.identity.namespace, live.identity.name, b"{}")
                except (NotLeader, Unreachable):
                    raise
                except ApiError as error:
                    log.debug("%s is not converted: %s", live.identity, error)

    async def _remove(self, client: Client, name: str, definition: Mapping[str, Any]) -> None:
        # A newer CRD may need conversions.
        metadata = {"resourceVersion": definition["metadata"]["resourceVersion"]}
        patch = {"metadata": metadata, "spec": {"conversion": _NONE}}
        await client.merge_patch(RESOURCE, "", name, encode(patch))
        log.info("the CRD %s needs no conversion any more", name)

    async def _write(self, client: Client, name: str, definition: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        conversion = definition["spec"].get("conversion") or {}
        if conversion == wanted:
            return
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": RESOURCE.kind,
            "metadata": {"name": name},
            "spec": {"conversion": wanted},
        }
        # The path of the webhook is a secret.
        options = ApplyOptions(manager=field_manager(self._operator.namespace), secret=_CONVERSION)
        client_config = (conversion.get("webhook") or {}).get("clientConfig") or {}
        other = "url" if self._service is not None else "service"
        if other in client_config:
            # An apply can't remove a field of another manager, and the API server refuses both.
            patch = {"clientConfig": {**wanted["webhook"]["clientConfig"], other: None}}
            await client.merge_patch(RESOURCE, "", name, encode({"spec": {"conversion": {"webhook": patch}}}))
        await client.apply(RESOURCE, "", name, encode(body), options)
        log.info("the CRD %s converts by this operator", name)

    def _unneeded(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The CRDs whose conversion this operator keeps, and whose versions need none."""
        for name in self._operator.controllers.templates.folders:
            definition = self._operator.controllers.crds.get(name)
            if definition is None or self._operator.namespace not in _keepers(definition):
                continue
            if not needed_conversions(definition):
                yield name, definition

    def _crds(self, problems: list[str]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """The CRDs whose folders convert, unless another operator does it."""
        for name, folder in self._operator.controllers.templates.folders.items():
            definition = self._operator.controllers.crds.get(name)
            if definition is None or folder.templates is None or not folder.templates.conversions:
                continue
            needed = needed_conversions(definition)
            missing = [way for way in needed if way not in folder.templates.conversions]
            if missing:
                files = " and ".join(f"{name}/_convert/{own}-to-{other}.yaml.j2" for own, other in missing)
                problems.append(f"the CRD {name} in the cluster also needs {files}; add them")
            elif needed and (others := _keepers(definition) - {self._operator.namespace}):
                problems.append(
                    f"the operator in the namespace {min(others)} converts {name} already; to take over, set "
                    "spec.conversion of the CRD to {strategy: None} first"
                )
            elif needed:
                yield name, definition


def _failed(uid: str, message: str) -> dict[str, Any]:
    """The review that says why an object can't be converted."""
    result = {"status": "Failure", "message": message}
    return REVIEWS.answer({"uid": uid, "convertedObjects": [], "result": result})


_NONE = {"strategy": "None", "webhook": None}
"""`spec.conversion` of a CRD that needs no conversion. An apply can't remove the fields that a merge patch has set."""

_MANAGER = "ssa-operator-conversion-"


def field_manager(namespace: str) -> str:
    """The field manager of `spec.conversion`, for the operator in a namespace."""
    return f"{_MANAGER}{namespace}"


def _keepers(definition: Mapping[str, Any]) -> frozenset[str]:
    """The namespaces of the operators that keep the conversion of a CRD."""
    return frozenset(
        str(entry["manager"]).removeprefix(_MANAGER)
        for entry in definition["metadata"].get("managedFields") or ()
        if str(entry.get("manager")).startswith(_MANAGER)
        and "f:conversion" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
    )


def _name(body: Mapping[str, Any]) -> str:
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    names = (metadata.get("namespace"), metadata.get("name") or metadata.get("generateName"))
    return f"{body.get('kind', 'object')} {'/'.join(str(each) for each in names if each)}"
