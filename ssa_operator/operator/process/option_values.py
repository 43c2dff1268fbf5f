"""Reads the values of options.

Promises:
- A value that an option can't have ends the command with one line, which names the option and what to write.
- A templates folder that is missing or empty gets the command that writes the first templates.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ssa_operator.operator.process.streams import CommandError

if TYPE_CHECKING:
    from ssa_operator.objects.shards import Shard
    from ssa_operator.operator.leadership.rules import LeaseTiming
    from ssa_operator.operator.serving_certificate import CertificateFiles
    from ssa_operator.reconcile.settings import ApplyMode
    from ssa_operator.rendering.folder.installation import Installation

_NAMESPACE = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


def check_folders(templates: Sequence[Path], *, note_empty: bool = True) -> None:
    """Raises CommandError if a folder does not exist. With `note_empty`, a note says how to begin if all are empty."""
    for folder in templates:
        if not folder.is_dir():
            raise _no_folder(folder, "templates with --templates")
    if note_empty and (advice := first_step(templates)):
        from ssa_operator.operator.process import streams

        streams.error(f"note: {advice}")


def first_step(templates: Sequence[Path]) -> str:
    """How to begin, for a command that needs no templates but failed; '' if there are some."""
    missing = next((folder for folder in templates if not folder.is_dir()), None)
    if missing is not None:
        return str(_no_folder(missing, "templates with --templates"))
    if any(each.is_dir() for folder in templates for each in folder.iterdir()):
        return ""
    from ssa_operator.rendering.folder.loaded_folders import no_folder_advice

    return no_folder_advice(templates)


def _no_folder(folder: Path, of: str) -> CommandError:
    from ssa_operator.rendering.folder.loaded_folders import FIRST_FOLDER

    return CommandError(
        f"there is no folder {folder}; name the folder of your {of}, or begin with `{FIRST_FOLDER}`", code=2
    )


def check_crd_folders(crds: Sequence[Path]) -> None:
    """Raises CommandError if a folder of CRDs does not exist."""
    for folder in crds:
        if not folder.exists():
            raise _no_folder(folder, "CRDs with --crds")


def crd_folders(crds: Sequence[Path], templates: Sequence[Path]) -> list[Path]:
    """The folders of CRDs that --crds names. The default one need not exist if a template folder has a `_schema.yaml`.

    Raises CommandError if another one does not exist.
    """
    from ssa_operator.operator.crd_files import schema_files
    from ssa_operator.rendering.folder.folder_settings import SCHEMA

    declared = any(file.name == SCHEMA for file in schema_files(templates))
    if list(crds) == [Path("crds")] and not crds[0].exists() and declared:
        return []
    check_crd_folders(crds)
    return list(crds)


def namespaces_of(given: Sequence[str] | None) -> tuple[str, ...]:
    """The names that `--namespace` gives. One value may have several names, separated by commas.

    Raises CommandError for an invalid name.
    """
    names = tuple(name for item in given or () for name in item.split(",") if name)
    for name in names:
        if not re.fullmatch(_NAMESPACE, name):
            raise CommandError(f"--namespace is {name!r}, which is not a valid name of a namespace", code=2)
    return names


def namespace_of(given: str) -> str:
    """The one name that `--namespace` gives, '' without one. Raises CommandError for an invalid name."""
    names = namespaces_of([given])
    if len(names) > 1:
        raise CommandError(f"--namespace is {given!r}; name one namespace", code=2)
    return names[0] if names else ""


def account_name(given: str) -> str:
    """The name that `--impersonate` gives, '' without one. Raises CommandError for an invalid name."""
    from ssa_operator.schema.metadata_validation import subdomain_faults

    if given and subdomain_faults(given):
        raise CommandError(
            f"--impersonate is {given!r}; write the name of a service account alone, such as deployer", code=2
        )
    return given


def installation_of(
    values: Sequence[Path] | None, namespace: str | None = None, *, hold_upgrade: bool = False
) -> Installation:
    """What templates see of the installation. The operator's namespace is POD_NAMESPACE if `namespace` gives none; if
    both are empty, that of the cluster's credentials, and without a cluster `default`.

    Raises CommandError if a file does not exist.
    """
    import os

    from ssa_operator.rendering.folder.installation import Installation

    for path in values or ():
        if not path.exists():
            raise CommandError(f"there is no file {path}; name a file of values with --values", code=2)
    own = os.environ.get("POD_NAMESPACE", "") if namespace is None else namespace
    return Installation(values=tuple(values or ()), namespace=own, hold_upgrade=hold_upgrade)


_LABEL = r"(?:[A-Za-z0-9.-]+/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = r"[-A-Za-z0-9_.]+"
_SET = rf"\(\s*(?:{_VALUE}\s*)?(?:,\s*(?:{_VALUE}\s*)?)*\)"
_TERM = rf"\s*(?:(?:!\s*)?{_LABEL}|{_LABEL}\s*(?:=|==|!=)(?:\s*{_VALUE})?|{_LABEL}\s+(?:in|notin)\s*{_SET})\s*"
_SELECTOR = rf"(?:{_TERM}(?:,{_TERM})*)?"


def check_selector(selector: str, name: str = "--selector") -> None:
    """Raises CommandError, which calls the text `name`, if it is no label selector."""
    if not re.fullmatch(_SELECTOR, selector):
        raise CommandError(
            f"{name} is {selector!r}; write label selectors such as app=web, tier!=test, env in (a, b), !old",
            code=2,
        )


def lease_timing(lease_duration: str, renew_deadline: str, retry_period: str) -> LeaseTiming:
    """What `--lease-duration`, `--lease-renew-deadline` and `--lease-retry-period` give. Raises CommandError."""
    from ssa_operator.operator.leadership.rules import LeaseTiming

    timing = LeaseTiming(
        lease_duration=seconds_of("--lease-duration", lease_duration),
        renew_deadline=seconds_of("--lease-renew-deadline", renew_deadline),
        retry_period=seconds_of("--lease-retry-period", retry_period),
    )
    if timing.problem:
        raise CommandError(
            f"{timing.problem}; change --lease-duration, --lease-renew-deadline or --lease-retry-period", code=2
        )
    return timing


def apply_mode(given: str) -> ApplyMode:
    """What `--apply` gives. Raises CommandError."""
    from ssa_operator.reconcile.settings import ApplyMode

    if given not in tuple(ApplyMode):
        raise CommandError(f"--apply is {given!r}; allowed are always and changed", code=2)
    return ApplyMode(given)


def resync_interval(given: str) -> float:
    """The seconds of `--interval`. Raises CommandError."""
    seconds = seconds_of("--interval", given)
    if seconds <= 0:
        raise CommandError("--interval is 0; write a duration such as 10s, or --resync-rate 0 for no resyncs", code=2)
    return seconds


def shard_of(given: str) -> Shard | None:
    """What `--shard` gives, None without one. Raises CommandError."""
    from ssa_operator.objects.shards import Shard, ShardError

    try:
        return Shard.parse(given) if given else None
    except ShardError as error:
        raise CommandError(f"--shard is {given!r}: {error}", code=2) from error


def webhook_service_of(
    service: str, webhook: tuple[str | None, int] | None, option: str = "--admission"
) -> tuple[str, int] | None:
    """Name and port of `--admission-service` or `--conversion-service`, None if it is empty. Raises CommandError, for
    example if the webhook lacks its package.
    """
    from importlib.util import find_spec

    if webhook is not None and find_spec("cryptography") is None:
        raise CommandError(f"{option} needs cryptography; install it with pip install 'ssa-operator[admission]'")
    if not service:
        return None
    if webhook is None:
        raise CommandError(f"{option}-service needs {option}, such as {option} :9443", code=2)
    name, _, port = service.partition(":")
    found = address(f"{name}:{port or 443}", f"{option}-service")
    if found is None or not found[0]:
        raise CommandError(f"{option}-service is {service!r}; write NAME or NAME:PORT", code=2)
    return found[0], found[1]


def certificate_of(certificate: Path | None, key: Path | None) -> CertificateFiles | None:
    """The files of the two options. Raises CommandError if only one is given, or if they hold no certificate."""
    from ssa_operator.operator.serving_certificate import CertificateError, CertificateFiles, ServingCertificate

    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise CommandError("--tls-cert-file and --tls-key-file belong together; write both or none", code=2)
    files = CertificateFiles(certificate=certificate, key=key)
    try:
        ServingCertificate(files)
    except CertificateError as error:
        raise CommandError(f"--tls-cert-file, --tls-key-file: {error}", code=2) from error
    return files


def seconds_of(option: str, text: str) -> float:
    """The seconds of an option. Raises CommandError."""
    from ssa_operator.objects.scalars import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}", code=2) from error


def timeout_of(given: str | float) -> float:
    """The seconds of `--timeout`: a number of them, or a duration as kubectl and Helm take it. Raises CommandError."""
    with contextlib.suppress(ValueError):
        if (seconds := float(given)) >= 0:
            return seconds
    return seconds_of("--timeout", str(given))


def address(listen: str, option: str = "--listen") -> tuple[str | None, int] | None:
    """Host (None: all addresses) and port of an option. None if it is empty. Raises CommandError."""
    if not listen:
        return None
    host, colon, port = listen.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise CommandError(f"{option} is {listen!r}; write HOST:PORT", code=2)
    return host.strip("[]") or None, int(port)
