"""Finds the children whose owner references name a version of their parent that is not served, or goes next.

Promises:
- Every object with the operator's label counts, of any kind and in any namespace. Kinds that can't be listed are named.

The garbage collector never deletes such objects (reconcile.owner_references).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.identity import split_api_version
from ssa_operator.objects.live_object import PARENT_UID_LABEL, LiveObject
from ssa_operator.objects.messages import counted

NAMES_LIMIT = 10
"""Objects that the sentence names."""


def served_versions(crd: Mapping[str, Any]) -> frozenset[str]:
    """The versions that a CRD serves."""
    return frozenset(version["name"] for version in crd["spec"]["versions"] if version["served"])


async def outdated_owners(client: Client, crd: Mapping[str, Any], going: Collection[str] = ()) -> str | None:
    """A sentence on the objects whose owner references name another version than the CRD serves, or one that is
    `going`; None if there are none. Raises ApiError if discovery fails.
    """
    good, found, unread = served_versions(crd).difference(going), list[str](), list[str]()
    for resource in await RESTMapper(client).resources():
        if not {"list", "patch"} <= resource.verbs:
            continue
        try:
            lives, _ = await client.list_scope(Scope(resource, label_selector=PARENT_UID_LABEL, metadata_only=True))
        except ApiError as error:
            unread.append(f"{resource.name} can't be listed ({error})")
            continue
        for live in lives:
            if versions := _versions(live, crd["spec"]) - good:
                identity = resource.identity(live.metadata.namespace, live.metadata.name)
                found.append(f"{identity} ({', '.join(sorted(versions))})")
    if found:
        more = f" and {len(found) - NAMES_LIMIT} more" if len(found) > NAMES_LIMIT else ""
        unread.insert(
            0,
            f"{counted(len(found), 'object')} would outlive their parents, because their owner references name a "
            f"version that is not served, or not for long: {', '.join(sorted(found)[:NAMES_LIMIT])}{more}. An operator "
            "renews those of all parents that it reconciles; check --selector, --namespace and removed folders",
        )
    return f"{crd['metadata']['name']}: {'; '.join(unread)}" if unread else None


def _versions(live: LiveObject, spec: Mapping[str, Any]) -> set[str]:
    """The versions in which an object names owners of the CRD's kind."""
    owners = (
        split_api_version(each.api_version) for each in live.owner_references if each.kind == spec["names"]["kind"]
    )
    return {version for group, version in owners if group == spec["group"]}
