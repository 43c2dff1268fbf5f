"""The options of a running operator. Their defaults are those of `ssa-operator run`."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from ssa_operator.objects.shards import Shard
from ssa_operator.reconcile.field_conflicts.history import ConflictPolicy
from ssa_operator.reconcile.settings import ApplyMode, ReconcileSettings
from ssa_operator.rendering.folder.installation import Installation

if TYPE_CHECKING:
    from ssa_operator.operator.leadership.rules import LeaseTiming
    from ssa_operator.operator.serving_certificate import CertificateFiles


class Options(Struct, frozen=True, kw_only=True):
    """The options of `ssa-operator run`."""

    templates: tuple[Path, ...] = (Path("templates"),)
    """The folders that hold template folders."""
    installation: Installation = field(default_factory=Installation)
    """What templates see of the installation: the files of `--values` and the operator's namespace."""
    namespaces: tuple[str, ...] = ()
    """Watch only these namespaces. Default: all namespaces."""
    selector: str = ""
    """Reconcile only parents with these labels (a label selector)."""
    interval: float = 10.0
    """Seconds between two resyncs of a parent."""
    shard: Shard | None = None
    """Reconcile only the parents of this shard. None: all parents."""
    resync_rate: float = 20.0
    """Applies a second that resyncs may cost, over all parents. 0 switches resyncs off."""
    impersonate: str = ""
    """Apply and read children as the service account of this name in the parent's namespace. '': as the operator."""
    workers: int = 16
    """Number of parents reconciled in parallel."""
    apply: ApplyMode = ApplyMode.ALWAYS
    """Which manifests a change of a parent or a resync applies: all of them, or only those that may have changed."""
    listen: tuple[str | None, int] | None = ("127.0.0.1", 8080)
    """Host and port of the HTTP server (host None: all addresses). None: no HTTP server."""
    certificate: CertificateFiles | None = None
    """The certificate of the HTTP server. None: it serves without TLS."""
    admission: tuple[str | None, int] | None = None
    """Host and port of the validating webhook (host None: all addresses). None: no webhook."""
    admission_service: tuple[str, int] | None = None
    """Name and port of the Service in the operator's namespace that leads to the webhook. None: the API server connects
    to its address.
    """
    conversion: tuple[str | None, int] | None = None
    """Host and port of the conversion webhook (host None: all addresses). None: no conversions are served."""
    conversion_service: tuple[str, int] | None = None
    """Name and port of the Service in the operator's namespace that leads to it. None: the API server connects to its
    address.
    """
    rollouts: bool = True
    """Whether a changed set of a folder with the setting `rollout` reaches the parents in waves. False: all at once."""
    leader_election: LeaseTiming | None = None
    """The settings of leader election. None: this process reconciles without a Lease."""
    conflict_policy: ConflictPolicy = field(default_factory=ConflictPolicy)
    """When changes of other field managers are a conflict, and how long the operator backs off."""

    @property
    def reconcile(self) -> ReconcileSettings:
        """The options that decide about a parent and its children."""
        return ReconcileSettings(
            selector=self.selector,
            sharded=self.shard is not None,
            apply=self.apply,
            conflict_policy=self.conflict_policy,
        )

    @property
    def exposes_http(self) -> bool:
        """Whether other hosts can reach the HTTP server."""
        return self.listen is not None and not listens_to_this_host(self.listen[0])


def listens_to_this_host(host: str | None) -> bool:
    """Whether a server that listens on `host` (None: all addresses) gets requests of this host alone."""
    if host is None:
        return False
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
