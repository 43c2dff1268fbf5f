"""Searches everything that a test's operators and commands show for the contents of its Secrets.

Promises:
- Each content that a Secret had while the test ran is searched for, also one that was replaced or deleted since then.
- Searched are statuses and Events, the log with its tracebacks, /objects, /metrics, and what commands print.
- A content of less than SHORTEST characters is not searched for: it stands in other words, too.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ssa_operator.devcluster.cluster import Cluster
from tests.devcluster.audit import audited_after

SHORTEST = 8
"""Characters."""


class Outputs(logging.Handler):
    """What is shown to users, with where it is shown. It is a handler of the log, too."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter())
        self.texts: list[tuple[str, str]] = []

    def add(self, where: str, text: str) -> None:
        self.texts.append((where, text))

    def emit(self, record: logging.LogRecord) -> None:
        self.add("log", self.format(record))


OUTPUTS = Outputs()
"""Of the running test."""


class SecretSearch:
    """Searches what is shown from its `begin` on."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.begin()

    def begin(self) -> None:
        assert self.cluster.audit_log is not None
        self._position = self.cluster.audit_log.stat().st_size
        OUTPUTS.texts.clear()

    def found(self) -> list[str]:
        """Where a content of a Secret is shown, as it is, as JSON writes it, or in base64."""
        requests, _ = audited_after(self.cluster, self._position)
        forms = {form: secret for secret in _contents(requests) for form in _forms(secret)}
        return [
            f"{where} shows {forms[form]!r}: {text}"
            for where, text in (*OUTPUTS.texts, *_published(requests))
            for form in forms
            if form in text
        ]


def _contents(requests: Iterable[Mapping[str, Any]]) -> set[str]:
    """The contents that Secrets had after these requests of the audit log."""
    stored = (
        request["responseObject"].get("data") or {}
        for request in requests
        if request.get("objectRef", {}).get("resource") == "secrets" and "responseObject" in request
    )
    values = {base64.b64decode(value).decode(errors="replace") for data in stored for value in data.values()}
    return {value for value in values if len(value) >= SHORTEST}


def _published(requests: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The statuses and Events that operators wrote by these requests of the audit log."""
    for request in requests:
        reference = request.get("objectRef", {})
        if not request["userAgent"].startswith("ssa-operator/") or "requestObject" not in request:
            continue
        if reference.get("subresource") == "status" or reference["resource"] == "events":
            yield f"{request['verb']} {request['requestURI']}", json.dumps(request["requestObject"], ensure_ascii=False)


def _forms(secret: str) -> set[str]:
    as_json = {json.dumps(secret, ensure_ascii=escaped)[1:-1] for escaped in (False, True)}
    return {secret, base64.b64encode(secret.encode()).decode(), *as_json}
