"""The formats in which commands show data."""

from __future__ import annotations

from enum import StrEnum


class OutputFormat(StrEnum):
    """The format of a command's data."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
