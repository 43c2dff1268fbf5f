"""Rewrites stored objects in the storage version of their CRD, so that older versions can be removed.

Promises:
- Only an object that no write has stored in the storage version yet is written. Its content stays, and so do the owners
  of its fields.
- A CRD names no other stored version only once every object was written. A migration that was interrupted goes on when
  it is started again.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ssa_operator.informers.crds import RESOURCE
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.objects.json_codec import encode
from ssa_operator.operator.stored_objects import resource_of

STEP = 100
"""Objects between two reports of the progress."""


async def migrate(client: Client, name: str, report: Callable[[int, int], None] = lambda *_: None) -> Sequence[str]:
    """Store all objects of a CRD in its storage version. `report` gets how many are done, and how many there are.
    Returns the versions in which objects may have been stored before. Raises ApiError.
    """
    definition = await client.get(RESOURCE, name)
    stored = next(version["name"] for version in definition.body["spec"]["versions"] if version["storage"])
    former = [each for each in definition.body.get("status", {}).get("storedVersions", ()) if each != stored]
    if not former:
        return ()
    resource = resource_of(definition.body, stored)
    objects, _ = await client.list(resource)
    for done, live in enumerate(objects, 1):
        try:
            # A patch without a change is written where the object is stored in another version.
            await client.merge_patch(resource, live.identity.namespace, live.identity.name, b"{}")
        except ApiError as error:
            if not error.not_found:
                raise
        if done % STEP == 0 or done == len(objects):
            report(done, len(objects))
    # The versions as they were: another CRD that is applied meanwhile must not lose its own.
    patch = {
        "metadata": {"resourceVersion": definition.resource_version},
        "status": {"storedVersions": [stored]},
    }
    await client.merge_patch(RESOURCE, "", name, encode(patch), subresource="status")
    return former
