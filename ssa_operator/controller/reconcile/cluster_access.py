"""Where plans are carried out.

Promises:
- It is one value: what a pass writes with, and the watches that learn of what it wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ssa_operator.controller.reconcile.events import Recorder
from ssa_operator.controller.watches.children import ChildInformers
from ssa_operator.controller.watches.crds import CRDInformer
from ssa_operator.controller.watches.lookups import LookupInformers
from ssa_operator.core.objects.identity import GroupKind
from ssa_operator.core.redaction.secret_values import NO_SECRETS, Redactor
from ssa_operator.kube.api.client import Client


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """The client, the watches of children, of what templates look up, and of CRDs, and who writes events.

    announces: whether a controller, this one or another, writes the status of a kind's objects: they are ready only
    then. secrecy: what the API server's words must not hold to be shown. former: managers whose fields are taken over
    with an object that exists.
    """

    client: Client
    children: ChildInformers
    lookups: LookupInformers
    definitions: CRDInformer
    recorder: Recorder
    reports_status: Callable[[GroupKind], bool]
    redactor: Redactor = NO_SECRETS
    former: AbstractSet[str] = frozenset()
