"""The formats in which commands log and show data."""

from __future__ import annotations

from enum import StrEnum


class LogFormat(StrEnum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """The lowest level of log lines to show."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class OutputFormat(StrEnum):
    """The format of a command's data."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
