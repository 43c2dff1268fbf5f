"""Searches everything that a test's operators and commands show for the contents of its Secrets.

Promises:
- Each content that a Secret had while the test ran is searched for, even if it was replaced or deleted since.
- Searched are statuses and Events, the log with its tracebacks, /objects, /metrics, and what commands print.
- A content of less than SHORTEST characters is not searched for: it stands in other words, too. Nor is one of PUBLIC.
- Nor is one that the author of a parent wrote into it as a guess: it is shown as any other text of the author.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ssa_operator.devcluster.cluster import Cluster
from tests.devcluster.audit import audited, begin, is_by_operator

SHORTEST = 8
"""Characters."""


PUBLIC = frozenset({"database", "dbname", "host", "port", "provider", "type", "user", "username", "why"})
"""Keys of Secrets whose contents are no secrets: the well-known entries of
https://servicebinding.io/spec/core/1.1.0/#well-known-secret-entries as clients of databases call them, and the reason
for which the operator keeps generated values.
"""


GUESS = "guess"
"""The annotation of a parent whose author guesses."""


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
    """Searches what the running test shows, from its `begin` on."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.begin()

    def begin(self) -> None:
        begin(self.cluster)
        OUTPUTS.texts.clear()

    def found(self) -> list[str]:
        """Where a content of a Secret is shown, as it is, as JSON writes it, or in base64."""
        requests = audited(self.cluster)
        guesses = _guesses(requests)
        contents = (secret for secret in _contents(requests) if secret not in guesses)
        forms = {form: secret for secret in contents for form in _forms(secret)}
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
    encoded = {value for data in stored for key, value in data.items() if key not in PUBLIC}
    return {text for value in encoded if len(text := base64.b64decode(value).decode(errors="replace")) >= SHORTEST}


def _guesses(requests: Iterable[Mapping[str, Any]]) -> str:
    """The guesses in the annotation GUESS of parents, by these requests of the audit log."""
    bodies = (request.get("requestObject") for request in requests if not is_by_operator(request))
    metadata = (body.get("metadata") or {} for body in bodies if isinstance(body, Mapping))
    return "\n".join((each.get("annotations") or {}).get(GUESS, "") for each in metadata)


def _published(requests: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The statuses and Events that operators wrote by these requests of the audit log."""
    for request in requests:
        reference = request.get("objectRef", {})
        if not is_by_operator(request) or "requestObject" not in request:
            continue
        if reference.get("subresource") == "status" or reference["resource"] == "events":
            yield f"{request['verb']} {request['requestURI']}", json.dumps(request["requestObject"], ensure_ascii=False)


def _forms(secret: str) -> set[str]:
    as_json = {json.dumps(secret, ensure_ascii=escaped)[1:-1] for escaped in (False, True)}
    return {secret, base64.b64encode(secret.encode()).decode(), *as_json}
