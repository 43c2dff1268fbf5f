"""The functions `read_file` and `read_files`: the texts of files below `files/` in the folder.

Promises:
- A template reads only regular files below the `files/` of its folder, and below that of `_shared` as `_shared/<name>`.
- `..`, absolute paths and symbolic links can't lead out.
- A file is never a manifest and never a template: its text is a value.
- A file that can't be read, is larger than FILE_LIMIT or is no UTF-8 text is an error of the template that reads it.
"""

from __future__ import annotations

import base64 as base64_encoding
import re
from collections.abc import Callable, Mapping
from typing import Any

import re2
from jinja2 import TemplateRuntimeError
from msgspec import Struct, field

from ssa_operator.objects.messages import did_you_mean
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.manifest_values import kind_of

FILES = "files"
"""The folder within a template folder whose files templates read as text."""

FILE_LIMIT = 2**20
"""Bytes of a file: a ConfigMap or a Secret holds no more."""

_SHARED = "_shared/"


class FolderFiles(Struct, frozen=True):
    """The files below `files/` by their names there; the content of each, or why it can't be read."""

    contents: Mapping[str, bytes | str] = field(default_factory=dict)
    """Bytes are the content, a string is the reason why there is none."""

    def functions(self) -> dict[str, Callable[..., Any]]:
        """The functions that templates call."""
        return {"read_file": self._read_file, "read_files": self._read_files}

    def _read_file(self, name: str, base64: bool = False) -> str:
        """The text of a file below `files/` of the folder; with `base64=true` its bytes in base64."""
        _check_name("read_file", "name", name)
        if name not in self.contents:
            hint = did_you_mean(name, self.contents, f"it must be below {FILES}/ of the folder")
            raise TemplateRuntimeError(f"read_file: there is no file {_shown(name)}; {hint}")
        return self._text("read_file", name, base64)

    def _read_files(self, pattern: str, base64: bool = False) -> dict[str, str]:
        """The texts of the files that a pattern such as `dashboards/*.json` matches, by their base names."""
        _check_name("read_files", "pattern", pattern)
        matches = _expression(pattern).fullmatch
        found: dict[str, str] = {}
        for name in limits.counted(sorted(self.contents)):
            if name.startswith(_SHARED) != pattern.startswith(_SHARED) or not matches(name):
                continue
            base = name.rpartition("/")[2]
            if base in found:
                raise TemplateRuntimeError(
                    f"read_files: two files of {pattern} have the name {base}; rename one of them"
                )
            found[base] = self._text("read_files", name, base64)
        return found

    def _text(self, function: str, name: str, base64: bool) -> str:
        content = self.contents[name]
        if isinstance(content, str):
            raise TemplateRuntimeError(f"{function}: {_shown(name)} {content}")
        limits.current().produce(len(content))
        if base64:
            return base64_encoding.b64encode(content).decode()
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            raise TemplateRuntimeError(
                f"{function}: {_shown(name)} is not UTF-8 text in its line {line}; write base64=true for a field that "
                "holds base64, such as binaryData"
            ) from None


def _shown(name: str) -> str:
    """The path of a file below the templates folder or the template folder."""
    return f"{_SHARED}{FILES}/{name.removeprefix(_SHARED)}" if name.startswith(_SHARED) else f"{FILES}/{name}"


def _check_name(function: str, argument: str, name: Any) -> None:
    if not isinstance(name, str) or not name:
        raise TemplateRuntimeError(f"{function}: {argument} must be a string, and this is {kind_of(name)}")
    if name.startswith("/") or ".." in name.split("/"):
        raise TemplateRuntimeError(f"{function}: {name} is outside of {FILES}/; name a file below it")
    if len(name) > 1024:
        raise TemplateRuntimeError(f"{function}: {argument} is longer than 1024 characters")


_WILDCARDS = {"**/": "(?:[^/]+/)*", "*": "[^/]*", "?": "[^/]"}


def _expression(pattern: str) -> Any:
    """The pattern of a shell: `*` and `?` stay within a folder, and `**/` is any number of folders."""
    parts = re.split(r"(\*\*/|\*|\?)", pattern)
    # RE2, because many asterisks would take Python's own too long.
    return re2.compile("".join(_WILDCARDS.get(part) or re2.escape(part) for part in parts))
