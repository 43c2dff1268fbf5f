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


class ListFormat(StrEnum):
    """The format of a list of objects."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"

    @property
    def data_format(self) -> OutputFormat:
        """The format of the data; a wide list is a table, too."""
        return OutputFormat.TABLE if self is ListFormat.WIDE else OutputFormat(self.value)
