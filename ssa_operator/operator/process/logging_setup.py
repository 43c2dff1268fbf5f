"""Formats log lines as text or JSON, and writes them to standard error, or keeps them for a screen.

Promises:
- One log record is one line without control characters, whatever the messages quote. A traceback follows its line; in
  JSON it is a field.
- In JSON, each line of a reconcile has the fields `controller` (the template folder), `namespace`, `name` and
  `reconcileID`, as in controller-runtime. As text, it ends with the reconcileID at the level debug only.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import msgspec

from ssa_operator.objects.messages import escaped_json, visible_line
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import LogFormat, LogLevel
from ssa_operator.reconcile.context import current

KEPT_LINES = 1000
"""The most log lines that a screen keeps."""


class _ReconcileFields(logging.Filter):
    """Adds the fields of the reconcile that logs the record."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = current()
        fields: dict[str, str] = {}
        if context is not None:
            key = context.key
            fields = {"controller": key.folder, "namespace": key.namespace, "name": key.name}
            fields = {name: value for name, value in fields.items() if value} | {"reconcileID": context.reconcile_id}
        record.reconcile = fields
        return True


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S")
        self._second = -1
        self._time = ""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        # The C library reads the time zone's file for each formatted time, so one second is formatted once.
        if int(record.created) != self._second:
            self._second, self._time = int(record.created), super().formatTime(record, datefmt)
        return self._time

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        record.message = visible_line(record.message)
        fields = getattr(record, "reconcile", None)
        if fields and logging.getLogger("ssa_operator").level <= logging.DEBUG:
            record.message += f" reconcileID={fields['reconcileID']}"
        return super().formatMessage(record)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "reconcile", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return escaped_json(msgspec.json.encode(entry).decode())


class _StandardError(logging.Handler):
    """Writes to the present `sys.stderr`, because the live tree replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        streams.error(self.format(record))


class _Kept(logging.Handler):
    """Keeps the newest lines."""

    def __init__(self, lines: deque[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.extend(self.format(record).splitlines())


@contextmanager
def kept() -> Iterator[deque[str]]:
    """The newest log lines, which are not written while the block runs, because a screen shows them."""
    lines: deque[str] = deque(maxlen=KEPT_LINES)
    root = logging.getLogger()
    before = root.handlers
    handler = _Kept(lines)
    handler.setFormatter(before[0].formatter if before else None)
    handler.addFilter(_ReconcileFields())
    root.handlers = [handler]
    try:
        yield lines
    finally:
        root.handlers = before


def configure(form: LogFormat, level: LogLevel) -> None:
    """Send the operator's log lines to standard error."""
    handler = _StandardError()
    handler.setFormatter(_Json() if form is LogFormat.JSON else _Text())
    handler.addFilter(_ReconcileFields())
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("ssa_operator").setLevel(level.value.upper())
