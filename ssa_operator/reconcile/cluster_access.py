"""The access of a reconcile to the cluster: a client and the informers.

Promises:
- It is one value: the clients that write, and the informers whose caches receive what was written.
- Before a child is created or deleted, the guard of the reconcile is asked.
- Every request for a child of an impersonated parent is sent as the account of the parent's namespace. A reconcile
  takes `for_parent(parent)`, and no other value has a client for children.
- No error of a request for a child quotes a Secret's content that a render put into it.
- In a dry run no cache receives anything, because nothing was written.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from msgspec import Struct, field

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.crds import CRDInformer
from ssa_operator.informers.lookups import LookupInformers
from ssa_operator.informers.parents import ParentKey
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.compression import Examples
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.reconcile.impersonation import AccountReviews
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.parent_records.folder_kinds import FolderKinds
from ssa_operator.reconcile.render_turns import RenderTurns
from ssa_operator.reconcile.settings import ReconcileSettings
from ssa_operator.reconcile.shards.other_shards import OtherShards
from ssa_operator.reconcile.status.event_requests import Recorder
from ssa_operator.rendering.determinism import TrustedTemplates


class SharedCluster(Struct, frozen=True, kw_only=True):
    """What the reconciles of all parents share: the operator's client, the informers, the recorder of Events, the
    settings, and what the process knows of them together.
    """

    operator_client: Client
    """Sends what concerns the parent itself, and reads what no template sees, as the operator."""
    impersonate: str = ""
    """The name of the service account that children are applied as, '' for the operator."""
    reviews: AccountReviews
    """What such accounts may read."""
    children: ChildInformers
    """The informers of children."""
    lookups: LookupInformers
    """The informers of what templates look up."""
    crds: CRDInformer
    recorder: Recorder
    """Writes Events on parents."""
    reports_status: Callable[[GroupKind], bool]
    """Whether a controller, this one or another, writes the status of a kind's objects: they are ready only then."""
    settings: ReconcileSettings = ReconcileSettings()
    """What all reconciles follow from."""
    claims: ObjectClaims
    """The objects of all parents of all folders."""
    others_wait: Callable[[Cause, ParentKey], bool] = lambda *_: False
    """Whether parents wait that are at least as urgent as this one with these causes."""
    clock: Clock = SYSTEM
    turns: RenderTurns = field(default_factory=RenderTurns)
    """Where their renders wait for each other."""
    trusted: TrustedTemplates = field(default_factory=TrustedTemplates)
    """The templates whose renders need no check."""
    examples: Examples = field(default_factory=dict)
    """What the applies that resyncs repeat are compressed by."""
    logged: set[tuple[str, str, str, str]] = field(default_factory=set)
    """The fields of statuses that were dropped and are logged already: folder, digest, template line and reason."""
    without_events: set[tuple[str, str]] = field(default_factory=set)
    """The accounts that may not list Events, each with the namespace, as far as that is logged."""
    other_shards: OtherShards | None = None
    """The parents of other shards, None without `--shard`."""
    folder_kinds: FolderKinds | None = None
    """The kinds that each folder has applied; None for a command, which has no namespace of its own."""
    dry_run: bool = False
    """Whether every write is a dry run."""

    def writing(self, identity: Identity) -> AbstractContextManager[None]:
        """Hold back the watch events of an object while the operator writes it."""
        return nullcontext() if self.dry_run else self.children.writing(identity)

    def written(self, live: LiveObject, *, changed: bool = True) -> LiveObject:
        """Update the caches with an object that a request returned; `changed`: whether the request changed it. Returns
        it, as the cache of children has it.
        """
        return live if self.dry_run else self.children.written(live, changed=changed)

    def deleted(self, live: LiveObject) -> None:
        """Remove from the caches an object that a delete removed at once."""
        if not self.dry_run:
            self.children.deleted(live)
