"""The informer of the parents of one template folder, and what this process knows and remembers of each parent.

Promises:
- A parent is requeued when its generation, its labels, its annotations or its deletion changed. A status that the
  operator wrote requeues no parent.
- A parent that a changed CRD shows with other fields is requeued, even if nothing wrote it since.
- Under `--shard`, only the parents of the shard are kept, whether the API server filters them or not.
- Under `--selector`, only the parents with these labels are kept, and those that lost them and are being deleted: the
  API server can't filter by both.
- At the start, parents that changed since their last status come before those that did not.
- A namespace that the operator may not read affects no other namespace. Its parents are reconciled once they can be
  read.
- The state of every parent can be read at any time, even while nothing is reconciled.
- Whether a parent was deleted with `--cascade=orphan` is known even after the garbage collector has removed its
  finalizer, if a watch showed the beginning of the deletion. A list shows no beginning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from ssa_operator.informers.informer import watch_problem
from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.request import Scope
from ssa_operator.kube.api.resource import Resource
from ssa_operator.kube.watch.cache import Cache
from ssa_operator.kube.watch.reflector import Reflector, ReflectorState
from ssa_operator.objects.annotations import FINALIZER
from ssa_operator.objects.causes import Cause
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.live_object import LiveObject, orphans_children
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.schema.crd_schema import (
    declared,
    has_status,
    object_schema,
    status_schema,
    undeclared_reports,
    unreported,
)
from ssa_operator.schema.operator_fields import APPLIED_FIELD


class Parent(Struct, frozen=True, kw_only=True):
    """The parent of a reconcile."""

    live: LiveObject
    folder: Folder
    """The template folder that renders it."""
    resource: Resource
    """How the cluster serves its kind."""
    writes_status: bool
    """Whether the operator writes its status."""
    status_schema: Mapping[str, object] | None
    """The schema of its status, None if it accepts anything."""
    schema: Mapping[str, Any] | None = None
    """The schema of its CRD, None if there is none or it can't be read."""
    shows_conditions: bool
    """Whether the operator's conditions have a place in the status."""
    shows_applied: bool = False
    """Whether what was applied has a place in the status."""
    crd_refusal: str | None = None
    """Why the CRD of `--install-crds` could not be applied, None if it was."""
    unreported: str | None
    """A sentence about what the operator can't report because the CRD doesn't declare it."""
    cache: Cache
    """The cache that the parent was read from. The operator's own writes to the parent go there."""
    is_abandoned: bool = False
    """Whether its template folder was removed, so that nothing is applied for it any more."""
    orphans_children: bool | None = False
    """Whether it is being deleted without its children (`kubectl delete --cascade=orphan`); None if this process has
    not seen the deletion begin.
    """

    @property
    def leaves(self) -> bool:
        """Whether the cache shows by now that it is being deleted or gone."""
        current = self.cache.get(self.live.identity.namespace, self.live.identity.name)
        return current is None or current.uid != self.live.uid or current.deleting


log = logging.getLogger("ssa_operator")


class ParentKey(NamedTuple):
    """A parent in the work queue: the template folder that renders it (`echoes.example.com`), its namespace ('' if
    cluster-scoped) and name.
    """

    folder: str
    namespace: str
    name: str

    @property
    def flow(self) -> str:
        """The work queue is fair between flows: namespaces, and the folders of cluster-scoped parents."""
        return self.namespace or f"/{self.folder}"

    def __str__(self) -> str:
        return f"{self.folder} {self.namespace}/{self.name}" if self.namespace else f"{self.folder} {self.name}"


class Served(Struct, frozen=True, kw_only=True):
    """How the cluster serves a folder's resource."""

    resource: Resource
    crd: Mapping[str, Any] | None
    """Its CRD, None for a built-in resource or one whose CRD can't be read."""

    @property
    def terminating(self) -> bool:
        """Whether the CRD is being deleted: its objects are served until the last one is gone, but no new ones."""
        return self.crd is not None and "deletionTimestamp" in self.crd["metadata"]

    @property
    def writes_status(self) -> bool:
        """Whether the operator writes the status. The status of a built-in kind belongs to Kubernetes.

        Where the CRD can't be read, discovery shows whether there is a status to write.
        """
        if self.crd is not None:
            return has_status(self.crd, self.resource.version)
        return not self.resource.built_in and "status" in self.resource.subresources

    @property
    def shows_conditions(self) -> bool:
        """Whether the operator's conditions have a place in the status."""
        if self.crd is None:
            return self.writes_status
        return "conditions" not in undeclared_reports(self.crd, self.resource.version)

    @property
    def unreported(self) -> str | None:
        """What the operator can't report because the CRD doesn't declare it, and what to do; None if it declares
        everything.
        """
        return unreported(self.crd, self.resource.version) if self.crd is not None else None


class ParentListener(Protocol):
    """Receives the events of parents."""

    def parent_added(self, live: LiveObject, key: ParentKey) -> None:
        """A parent was created, or is in the first list."""

    def parent_owned(self, live: LiveObject) -> None:
        """This parent became the child of another parent, or no longer is one."""

    def parent_deleted(self, uid: str) -> None:
        """A parent is gone from the cluster."""

    def parent_changed(self, key: ParentKey, cause: Cause) -> None:
        """A parent has to be reconciled, for this cause."""


class Memory(Protocol):
    """What the process remembers of a parent between two reconciles."""

    @property
    def ready(self) -> bool:
        """Whether the last report says that the parent is ready."""

    @property
    def unready(self) -> bool:
        """Whether the last report says that the parent is not ready."""


State = TypeVar("State", bound=Memory)


class ParentInformer(Generic[State]):
    """All parents of one template folder, watched from `start` until `close`, and the `State` of each.

    `kind_changes` counts how often the kinds that the cluster serves changed. If it increases during a reconcile, that
    reconcile may have used outdated kinds.
    """

    def __init__(
        self,
        client: Client,
        folder: Folder,
        served: Served,
        listener: ParentListener,
        *,
        new: State,
        namespaces: Sequence[str] = (),
        shard_selector: str = "",
        keep: Callable[[LiveObject], bool] | None = None,
    ) -> None:
        """`new` is the state of a parent that no reconcile has seen. `namespaces` are watched one by one, () is all.
        `shard_selector` selects parents at the API server, `keep` here.
        """
        self.folder = folder
        self.choose_folder: Callable[[LiveObject], Folder | None] | None = None
        """Returns the template folder that renders a parent during a rollout, None for `folder`."""
        self._name = folder.name
        self.kind_changes = 0
        self.crd_refusal: str | None = None
        """Why the CRD of `--install-crds` is not applied, None if it is."""
        self.is_abandoned = False
        """Whether the folder was removed while parents have the operator's finalizer."""
        self.serve(served)
        self._listener = listener
        self._new = new
        self._states: dict[str, State] = {}
        self._state_listeners: list[Callable[[LiveObject, State], None]] = []
        self._deletions: dict[str, bool | None] = {}
        """The uids of the parents in deletion, each with whether its children stay; None where that is unknown."""
        self._keep = keep
        self._cache = Cache()
        self._cache.on_list = self._listed
        self._cache.listen(self._changed)
        self._cache.listen(self._content_changed, own_writes=True)
        self.reflectors = tuple(
            Reflector(
                client,
                Scope(served.resource, namespace, shard_selector=shard_selector),
                self._cache,
                keep=keep,
            )
            for namespace in (namespaces if served.resource.namespaced and namespaces else ("",))
        )
        self.tasks: list[asyncio.Task[None]] = []
        """The running reflectors, one task each."""

    def start(self) -> None:
        """Start the reflectors."""
        for each in self.reflectors:
            each.listen(self._log_if_forbidden)
        self.tasks = [asyncio.create_task(each.run(), name=f"watch {self.folder.name}") for each in self.reflectors]

    def __iter__(self) -> Iterator[LiveObject]:
        return iter(self._cache)

    def __len__(self) -> int:
        return len(self._cache)

    @property
    def synced(self) -> bool:
        return all(reflector.synced.is_set() for reflector in self.reflectors)

    @property
    def serving(self) -> bool:
        """Whether the operator serves the parents of each namespace, except of those that it may not read."""
        answered = all(reflector.answered for reflector in self.reflectors)
        return answered and any(reflector.synced.is_set() for reflector in self.reflectors)

    @property
    def unserved(self) -> Mapping[str, str]:
        """The namespaces ('' for all) whose parents are not known, each with the reason; '' if the API server has
        reported none.
        """
        unsynced = (reflector for reflector in self.reflectors if not reflector.synced.is_set())
        return {reflector.scope.namespace: watch_problem(reflector) for reflector in unsynced}

    def serve(self, served: Served) -> None:
        """Replace how the cluster serves the resource, and what its CRD declares of the status."""
        self.served = served
        self._writes_status = served.writes_status
        self._status_schema = status_schema(served.crd, served.resource.version) if served.crd else None
        self._schema = object_schema(served.crd, served.resource.version) if served.crd else None
        self._unreported = served.unreported
        status = declared({"revision": "", APPLIED_FIELD: ""}, self._status_schema)
        shown = status if served.writes_status and isinstance(status, Mapping) else {}
        self.reports_revision = "revision" in shown
        """Whether the status shows the revision of the templates."""
        # Without its CRD, nothing tells whether the API server keeps the field.
        self._shows_applied = served.crd is not None and APPLIED_FIELD in shown
        self._shows_conditions = served.shows_conditions

    def writes_observed_generation(self, kind: GroupKind) -> bool:
        """Whether these parents are of a kind, and their status has a place for the observedGeneration."""
        resource = self.served.resource
        if (resource.group, resource.kind) != kind or not self._writes_status:
            return False
        status = declared({"observedGeneration": 1, "conditions": []}, self._status_schema)
        return isinstance(status, Mapping) and bool(status)

    def all_keys(self) -> list[ParentKey]:
        return [self._key(live) for live in self._cache]

    @property
    def ready_count(self) -> int:
        """How many parents are Ready in their last report."""
        return sum(self.state(live).ready for live in self._cache)

    def unready(self) -> list[ParentKey]:
        """The parents whose last report isn't Ready."""
        return [self._key(live) for live in self._cache if self.state(live).unready]

    def find(self, namespace: str, name: str) -> LiveObject | None:
        """The parent with that name, None without one."""
        return self._cache.get(namespace, name)

    def listen(
        self, listener: Callable[[LiveObject | None, LiveObject | None], None], *, own_writes: bool = False
    ) -> None:
        """Have `listener(old, new)` called for every foreign change of a parent, and with `own_writes` for the
        operator's own.
        """
        self._cache.listen(listener, own_writes=own_writes)

    def listen_to_states(self, listener: Callable[[LiveObject, State], None]) -> None:
        """Have `listener(parent, state)` called after each reconcile of a parent."""
        self._state_listeners.append(listener)

    def parent(self, live: LiveObject) -> Parent:
        """The parent as a reconcile takes it."""
        return Parent(
            live=live,
            folder=self.folder_of(live),
            resource=self.served.resource,
            writes_status=self._writes_status,
            status_schema=self._status_schema,
            schema=self._schema,
            shows_conditions=self._shows_conditions,
            shows_applied=self._shows_applied,
            unreported=self._unreported,
            crd_refusal=self.crd_refusal,
            cache=self._cache,
            is_abandoned=self.is_abandoned,
            orphans_children=live.deleting and (orphans_children(live) or self._deletions.get(live.uid)),
        )

    def folder_of(self, live: LiveObject) -> Folder:
        """The template folder that renders a parent."""
        chosen = self.choose_folder(live) if self.choose_folder is not None else None
        return self.folder if chosen is None else chosen

    def state(self, live: LiveObject) -> State:
        """What the process remembers of this object: nothing if the object was recreated under the same name."""
        return self._states.get(live.uid, self._new)

    def save_state(self, live: LiveObject, state: State) -> None:
        """Remember the state of a parent until its next reconcile, unless the parent is gone."""
        if live.uid in self._states:
            self._states[live.uid] = state
            for listener in self._state_listeners:
                listener(live, state)

    async def close(self) -> None:
        """Stop the reflectors."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def _log_if_forbidden(self, reflector: Reflector) -> None:
        if reflector.state is ReflectorState.FORBIDDEN:
            log.warning("%s: %s", self.folder.name, watch_problem(reflector))

    def _key(self, live: LiveObject) -> ParentKey:
        return ParentKey(self._name, live.identity.namespace, live.identity.name)

    def _content_changed(self, old: LiveObject | None, new: LiveObject | None) -> None:
        """Requeue a parent whose content changed without its generation: its kind has none (ConfigMap), or the API
        server shows it by another schema. The answer to an own write may be the first to show that.
        """
        if old is None or new is None or old.uid != new.uid or old.metadata.generation != new.metadata.generation:
            return
        if not old.has_same_content(new):
            self._listener.parent_changed(self._key(new), Cause.PARENT)

    def _listed(self, lives: Iterable[LiveObject]) -> None:
        """Record the deletions whose beginning no watch has shown."""
        for live in lives:
            if live.deleting:
                self._deletions.setdefault(live.uid, None)

    def _is_kept_alive(self, live: LiveObject) -> bool:
        """Whether the informer would have a parent that is not in deletion. If not, its first event is the beginning
        of its deletion.
        """
        metadata = {name: value for name, value in live.body["metadata"].items() if name != "deletionTimestamp"}
        return self._keep is None or self._keep(LiveObject.of({**live.body, "metadata": metadata}))

    def _changed(self, old: LiveObject | None, new: LiveObject | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self._states.pop(old.uid, None)
            self._deletions.pop(old.uid, None)
            self._listener.parent_deleted(old.uid)
        live = new or old
        if live is None:
            return
        key = self._key(live)
        if new is not None and orphans_children(new):
            self._deletions[new.uid] = True
        elif new is not None and new.deleting and (old is not None or not self._is_kept_alive(new)):
            self._deletions.setdefault(new.uid, False)
        if new is not None and (old is None or new.uid != old.uid):
            self._states[new.uid] = self._new
            self._listener.parent_added(new, key)
        elif new is not None and old is not None and new.creator_uid != old.creator_uid:
            self._listener.parent_owned(new)
        cause = cause_of_change(old, new)
        if cause:
            self._listener.parent_changed(key, cause)


def cause_of_change(old: LiveObject | None, new: LiveObject | None) -> Cause:
    """The cause with which an event of a parent requeues it, Cause(0) if the event doesn't."""
    if new is None:
        return Cause.PARENT
    if old is None:
        return Cause.FIRST_LIST if new.observed_generation == new.metadata.generation else Cause.PARENT
    before, after = old.metadata, new.metadata
    if (before.uid, before.generation, before.labels, before.annotations) != (
        after.uid,
        after.generation,
        after.labels,
        after.annotations,
    ) or old.deleting != new.deleting:
        return Cause.PARENT
    finalizer_changed = (FINALIZER in before.finalizers) != (FINALIZER in after.finalizers)
    return Cause.CHILD if finalizer_changed or old.body.get("status") != new.body.get("status") else Cause(0)
