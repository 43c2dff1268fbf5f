"""`ssa-operator run`: runs the operator.

Promises:
- A wrong option ends the command before the first request. The error names the option and what to write.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.shared_options import (
    CRDS,
    LISTEN,
    TEMPLATES,
    AdmissionService,
    Context,
    ConversionService,
    Crds,
    Impersonate,
    Kubeconfig,
    Listen,
    LogFormatOption,
    LogLevelOption,
    Templates,
    Values,
    WatchedNamespaces,
)
from ssa_operator.operator.process.option_values import (
    account_name,
    address,
    apply_mode,
    certificate_of,
    check_folders,
    check_selector,
    crd_folders,
    installation_of,
    lease_timing,
    namespaces_of,
    resync_interval,
    shard_of,
    webhook_service_of,
)
from ssa_operator.operator.process.streams import LogFormat, LogLevel

if TYPE_CHECKING:
    from ssa_operator.operator.http import Pages
    from ssa_operator.operator.operator import Operator


EXAMPLE = "ssa-operator run --templates templates --crds crds --install-crds"


def run(
    templates: Templates = TEMPLATES,
    values: Values = None,
    crds: Crds = CRDS,
    namespace: WatchedNamespaces = None,
    selector: Annotated[str, typer.Option(help="Reconcile only parents whose labels match this label selector.")] = "",
    interval: Annotated[str, typer.Option(help="Time between two resyncs of a parent.")] = "10s",
    resync_rate: Annotated[
        float,
        typer.Option(min=0, help="Maximum applies a second for resyncs of all parents together. 0 disables resyncs."),
    ] = 20.0,
    hold_upgrade: Annotated[
        bool,
        typer.Option(
            "--hold-upgrade",
            help="With rollouts: another version of the operator reaches parents in waves, as a changed set does. "
            "Until then nothing is applied to them.",
        ),
    ] = False,
    impersonate: Impersonate = "",
    workers: Annotated[int, typer.Option(min=1, help="Number of parents reconciled in parallel.")] = 16,
    apply: Annotated[
        str,
        typer.Option(
            metavar="always|changed",
            help="Whether a change or resync of a parent applies every manifest, or only those that may have changed.",
        ),
    ] = "always",
    shard: Annotated[
        str,
        typer.Option(
            metavar="I/N",
            help="Reconcile only the parents of shard I of N, counted from 0, such as 0/4. Default: all parents.",
        ),
    ] = "",
    listen: Listen = LISTEN,
    ui: Annotated[bool, typer.Option("--ui", help="Show the web view at /ui of the address of --listen.")] = False,
    tls_cert_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Certificate of the HTTP server, with its intermediates, in PEM. The operator reads it again when it "
            "changes. Default: no TLS.",
        ),
    ] = None,
    tls_key_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Private key of --tls-cert-file, in PEM.")
    ] = None,
    admission: Annotated[
        str,
        typer.Option(
            metavar="[HOST]:PORT",
            help="Address of a validating webhook, which refuses parents whose templates fail. Without "
            "--admission-service, the API server connects to this address. Default: no webhook.",
        ),
    ] = "",
    admission_service: AdmissionService = "",
    conversion: Annotated[
        str,
        typer.Option(
            metavar="[HOST]:PORT",
            help="Address at which the API server gets parents in another version, by the templates in _convert/. "
            "Without --conversion-service, the API server connects to this address. Default: none is converted.",
        ),
    ] = "",
    conversion_service: ConversionService = "",
    install_crds: Annotated[
        bool, typer.Option("--install-crds", help="Apply the CRDs of the --crds folders first.")
    ] = False,
    leader_elect: Annotated[
        bool,
        typer.Option(
            "--leader-elect",
            help="Write only while holding the Lease ssa-operator in the operator's namespace, so that several "
            "replicas can run.",
        ),
    ] = False,
    lease_duration: Annotated[
        str, typer.Option(help="Time after which a standby takes over from a leader that does not renew the Lease.")
    ] = "15s",
    lease_renew_deadline: Annotated[
        str,
        typer.Option(
            help="Time without a renewal after which a leader stops writing and exits; less than --lease-duration."
        ),
    ] = "10s",
    lease_retry_period: Annotated[
        str, typer.Option(help="Time between two renewals or attempts to acquire the Lease.")
    ] = "2s",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
    log_format: LogFormatOption = LogFormat.TEXT,
    log_level: LogLevelOption = LogLevel.INFO,
) -> None:
    """Run the operator until interrupted. It renders and applies the templates of every parent."""
    import asyncio
    import gc

    from ssa_operator.operator.process.aiohttp_import import import_aiohttp

    # Imports leave no garbage to search for. `session.serve` enables the search again.
    gc.disable()

    import_aiohttp()
    from ssa_operator.operator.operator_options import Options
    from ssa_operator.operator.process import connection, session

    _configure_logging(log_format, log_level)
    check_folders(templates, note_empty=False)  # it reports that itself
    if install_crds or crds != CRDS:
        crds = crd_folders(crds, templates)
    mode, seconds = apply_mode(apply), resync_interval(interval)
    names = namespaces_of(namespace)
    check_selector(selector)
    webhook = address(admission, "--admission")
    service = webhook_service_of(admission_service, webhook)
    converting = address(conversion, "--conversion")
    conversions = webhook_service_of(conversion_service, converting, "--conversion")
    timing = lease_timing(lease_duration, lease_renew_deadline, lease_retry_period)
    options = Options(
        templates=tuple(templates),
        installation=installation_of(values, hold_upgrade=hold_upgrade),
        namespaces=names,
        selector=selector,
        shard=shard_of(shard),
        interval=seconds,
        resync_rate=resync_rate,
        impersonate=account_name(impersonate),
        workers=workers,
        apply=mode,
        listen=address(listen),
        certificate=certificate_of(tls_cert_file, tls_key_file),
        admission=webhook,
        admission_service=service,
        conversion=converting,
        conversion_service=conversions,
        leader_election=timing if leader_elect else None,
    )
    asyncio.run(
        session.run_operator(
            options,
            connection.Target(kubeconfig=kubeconfig, context=context),
            crds if install_crds else None,
            _web_view if ui else None,
        )
    )


def _web_view(operator: Operator) -> Pages:
    # By its name, as the command line loads its commands: `run` itself needs none of it.
    view: Pages = importlib.import_module("ssa_operator.web.routes").WebView(operator)
    return view


def _configure_logging(log_format: LogFormat, log_level: LogLevel) -> None:
    from ssa_operator.operator.process import logging_setup

    logging_setup.configure(log_format, log_level)
