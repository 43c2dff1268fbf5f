"""One reconcile in progress (`Reconcile`), and what it shares with those of all parents (`SharedCluster`).

Promises:
- `Reconcile` is the only value that changes during a reconcile. If a request fails, the process remembers the state
  that it has by then. The parent's records are read again only after a write of the parent.
- Every request for a child of an impersonated parent is sent as the account of the parent's namespace: no value but
  `Reconcile` has a client for children.
- No error of a request for a child quotes a Secret's content that a render put into it.
- In a dry run no cache receives anything, because nothing was written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, nullcontext

from msgspec import Struct, field
from msgspec.structs import replace

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.crds import CRDInformer
from ssa_operator.informers.lookups import LookupInformers
from ssa_operator.informers.parents import Parent, ParentKey
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.clock import SYSTEM, Clock
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.compression import Examples
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.kinds import ServedKind
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets
from ssa_operator.reconcile.child import Result
from ssa_operator.reconcile.impersonation import AccountReviews, AccountView, account_of
from ssa_operator.reconcile.long_steps import LongSteps
from ssa_operator.reconcile.object_claims import ObjectClaims
from ssa_operator.reconcile.parent_records.folder_kinds import FolderKinds
from ssa_operator.reconcile.parent_records.rules import AppliedRecord, ParentRecords, read_parent_records
from ssa_operator.reconcile.parent_state import ParentState
from ssa_operator.reconcile.plan import Plan
from ssa_operator.reconcile.render_turns import RenderTurns
from ssa_operator.reconcile.settings import ReconcileSettings
from ssa_operator.reconcile.shards.other_shards import OtherShards
from ssa_operator.reconcile.status.event_requests import Recorder
from ssa_operator.reconcile.status.report import Report
from ssa_operator.rendering.determinism import TrustedTemplates
from ssa_operator.rendering.jinja.predicates import Judgements


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


class Reconcile(Struct, kw_only=True):
    """A reconcile in progress: the parent, its state and the causes."""

    cluster: SharedCluster
    """What it shares with the reconciles of all parents."""
    client: Client
    """Sends what concerns the children of the parent. Its errors quote no Secret's content that a render put there."""
    account: str = ""
    """The user name of the account that they are applied as, '' where the parent is not impersonated."""
    uid: str
    """The parent's uid."""
    now: Callable[[], float] = SYSTEM.now
    """The time in seconds since the epoch."""
    monotonic: Callable[[], float] = SYSTEM.monotonic
    """The time in seconds on the monotonic clock of the process."""
    parent: Parent
    """The parent as the last write of this reconcile left it."""
    records: ParentRecords
    """The records on it."""
    state: ParentState
    """What the process remembers of the parent so far."""
    causes: Cause
    """Why the parent is reconciled."""
    own_children: tuple[object, tuple[LiveObject, ...]] = (None, ())
    """Its children in order, as this reconcile saw them last, after what the order follows from."""
    repeated: dict[Identity, tuple[Result, tuple[str, ...]]] = field(default_factory=dict)
    """The results of applies that were sent before the render and did not leave everything as it was, and the API
    server's warnings.
    """
    throttled: ApiError | None = None
    """The API server's answer 429 to one of these applies."""

    steps: LongSteps = field(default_factory=LongSteps)
    """The steps of this reconcile, which leave the event loop to others where they take long."""

    plan: Plan | None = None
    """The plan that is carried out, None before that and in a dry run."""
    began_leaving: bool = False
    """Whether the parent was being deleted already when that began."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a question is asked, or a record is written, that is one for all children."""
    answers: dict[object, str | ApiError | None] = field(default_factory=dict)
    """The answers to such questions."""
    acted: Report | None = None
    """What became of the children, of a reconcile that ends before its status is rendered."""
    judgements: Judgements = field(default_factory=Judgements)
    """How the expressions of authors judge the objects of this reconcile."""
    read_as_account: bool = False
    """Whether the templates read something with the permissions of the parent's account."""
    guessed: bool = False
    """Whether a child may wait only because there was no time yet to judge whether another one is ready."""
    lacks_permission: bool = False
    """Whether the account, or the operator itself, lacked a permission without which the reconcile is incomplete."""
    newly_converged: bool = False
    """Whether this reconcile was the first of this process that applied the template set completely."""
    suspended: bool = False
    """Whether the parent is suspended."""
    publishing: bool = False
    """Whether everything but the status and the Events is done."""

    @classmethod
    def begin(cls, cluster: SharedCluster, parent: Parent, state: ParentState, causes: Cause) -> Reconcile:
        """A reconcile that begins now."""
        account = account_of(cluster.impersonate, parent.live.identity) if cluster.impersonate else ""
        client = cluster.operator_client.impersonating(account) if account else cluster.operator_client
        return cls(
            cluster=cluster,
            client=client if state.secrets == NO_SECRETS else client.hiding(state.secrets),
            account=account,
            uid=parent.live.uid,
            now=cluster.clock.now,
            monotonic=cluster.clock.monotonic,
            parent=parent,
            records=_records(parent, state),
            state=state,
            causes=causes,
        )

    @property
    def key(self) -> ParentKey:
        """The parent in the work queue."""
        identity = self.parent.live.identity
        return ParentKey(self.parent.folder.name, identity.namespace, identity.name)

    @property
    def former_managers(self) -> AbstractSet[str]:
        """The field managers whose fields the operator adopts with an existing object."""
        return self.parent.folder.settings.former_managers

    @property
    def parent_leaves(self) -> bool:
        """Whether the parent is being deleted or gone by now, so that no child gets an owner reference to it. False
        where the reconcile began so: it applies finalize hooks.
        """
        return self.plan is not None and not self.began_leaving and self.parent.leaves

    def account_view(self) -> AccountView | None:
        """What the parent's account may read, for one render; None for the operator itself."""
        return AccountView(self.account, self.cluster.reviews, self._served) if self.account else None

    def _served(self, kind: GroupKind, version: str | None) -> ServedKind | None:
        resource = self.cluster.lookups.resource(kind, version)
        return None if resource is None else ServedKind(resource.plural, resource.namespaced)

    def learn_permissions(self, account: AccountView | None) -> None:
        """Remember what a render read as the parent's account."""
        if account is not None:
            self.read_as_account |= account.asked
            self.lacks_permission |= account.denies

    def begin_render(self) -> None:
        """Forget what the last reconcile left for this one."""
        status = replace(self.state.status, deferred=None)
        self.state = replace(self.state, status=status, repeatable=None)

    def take_parent(self, parent: Parent) -> None:
        """Go on with the parent as a write or a read returned it."""
        if parent is not self.parent:
            self.parent, self.records = parent, _records(parent, self.state)

    def remember_applied(self, applied: AppliedRecord | None) -> None:
        """Remember what was applied until the status shows it; None where an annotation does."""
        self.state = replace(self.state, applied=applied)
        self.records = _records(self.parent, self.state)

    def remember_secrets(self, secrets: ParentSecrets) -> None:
        """Remember where a render put the contents of Secrets."""
        if secrets != self.state.secrets:
            self.state = replace(self.state, secrets=secrets)
            self.client = self.client.hiding(secrets)


def _records(parent: Parent, state: ParentState) -> ParentRecords:
    """The records on a parent, with what its status does not show yet."""
    records = read_parent_records(parent.live)
    if state.applied is None or not (records.applied is None or records.applied.shown):
        return records
    return replace(records, applied=state.applied)
