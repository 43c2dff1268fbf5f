"""Rewrites stored objects in the storage version of their CRD, so that older versions can be removed.

Promises:
- Only an object that no write has stored in the storage version yet is written. Its content stays, and so do the owners
  of its fields.
- An object that can't be written stops no other one. All of them are named at the end.
- An object that can't be converted stays as it is.
- A CRD names no other stored version only once every object was written. A migration that was interrupted goes on when
  it is started again.

Source: https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ssa_operator.informers.crds import RESOURCE
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, NotLeader, Unreachable
from ssa_operator.objects.annotations import not_converted
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.messages import counted
from ssa_operator.operator.stored_objects import resource_of

STEP = 100
"""Objects between two reports of the progress."""


class MigrationError(Exception):
    """Objects can't be stored in the storage version. The message names each with the reason."""


async def migrate(client: Client, name: str, report: Callable[[int, int], None] = lambda *_: None) -> Sequence[str]:
    """Store all objects of a CRD in its storage version. `report` gets how many are done, and how many there are.
    Returns the versions in which objects may have been stored before. Raises ApiError, and MigrationError with all
    objects that can't be written.
    """
    definition = await client.get(RESOURCE, name)
    stored = next(version["name"] for version in definition.body["spec"]["versions"] if version["storage"])
    former = [each for each in definition.body.get("status", {}).get("storedVersions", ()) if each != stored]
    if not former:
        return ()
    resource = resource_of(definition.body, stored)
    objects, _ = await client.list(resource)
    refused: list[str] = []
    for done, live in enumerate(objects, 1):
        try:
            if (mark := not_converted(live.body)) is not None:
                refused.append(f"{live.identity}: it can't be converted from {mark.version}: {mark.message}")
                continue
            # A patch without a change is written where the object is stored in another version.
            await client.merge_patch(resource, live.identity.namespace, live.identity.name, b"{}")
        except (NotLeader, Unreachable):
            raise
        except ApiError as error:
            if not error.not_found:
                refused.append(f"{live.identity}: {error}")
        if done % STEP == 0 or done == len(objects):
            report(done, len(objects))
    if refused:
        count = counted(len(objects), "object")
        raise MigrationError(f"{name}: {len(refused)} of {count} can't be stored in {stored}:\n" + "\n".join(refused))
    # The versions as they were: another CRD that is applied meanwhile must not lose its own.
    patch = {
        "metadata": {"resourceVersion": definition.resource_version},
        "status": {"storedVersions": [stored]},
    }
    await client.merge_patch(RESOURCE, "", name, encode(patch), subresource="status")
    return former
