"""What `check` found: a finding, its code, and the edits that correct it.

Promises:
- Every finding has a code, a message, and the file and line that cause it.
- A published code keeps its meaning. It stands beside the rule that finds it; `checks/codes.py` has all of them.
- What another rule has to know of a finding is a field. No rule reads a message.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from msgspec import Struct

from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text


class Severity(StrEnum):
    """How serious a finding is."""

    ERROR = "error"
    WARNING = "warning"


class Code(str):
    """A kind of finding, as the text of its published name."""

    __slots__ = ("explanation", "problem", "replaces", "severity")

    severity: Severity
    problem: str
    """A noun phrase."""
    explanation: str
    """Why it matters, and what to do."""
    replaces: frozenset[str]
    """The earlier codes that have the meaning of this one."""

    @classmethod
    def error(cls, name: str, problem: str, explanation: str, replaces: str = "") -> Self:
        """The code of what a cluster refuses, or what can't be intended. `replaces` has earlier codes and blanks."""
        return cls._of(Severity.ERROR, name, problem, explanation, replaces)

    @classmethod
    def warning(cls, name: str, problem: str, explanation: str, replaces: str = "") -> Self:
        """The code of what works but may surprise. `replaces` has earlier codes and blanks."""
        return cls._of(Severity.WARNING, name, problem, explanation, replaces)

    @classmethod
    def _of(cls, severity: Severity, name: str, problem: str, explanation: str, replaces: str) -> Self:
        code = cls(name)
        code.severity, code.problem, code.explanation = severity, problem, explanation
        code.replaces = frozenset(replaces.split())
        return code


class Edit(Struct, frozen=True, kw_only=True):
    """A replacement of text in the line of a finding."""

    column: int | None
    """Where the old text begins, from 0. None for the key of a field, if the line has it once."""
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that `check` found."""

    code: Code
    message: str
    location: SourceLocation | None = None
    """The line that causes it; None if no file has it, as for a missing example."""
    fix: str = ""
    """What to write instead, in words; '' if there is no single answer."""
    edits: tuple[Edit, ...] = ()
    """The edits of `check --fix`. They keep the author's meaning."""
    subject: str = field(default="", compare=False)
    """The manifest that shows it. Several manifests of one line show it only once."""
    path: FieldPath = field(default=(), compare=False)
    """The field of the manifest that it is about, () for another subject."""
    about: str = field(default="", compare=False)
    """The variable, or the template folder, that it is about; '' if its line says it."""

    @property
    def severity(self) -> Severity:
        return self.code.severity

    @property
    def text(self) -> str:
        """The message with its subject."""
        return f"{self.subject}: {self.message}" if self.subject else self.message

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        return f"{where}{self.severity} {self.code}: {self.text}" + (f"; {self.fix}" if self.fix else "")


def field_finding(document: Document, code: Code, path: FieldPath, message: str, fix: str) -> Finding:
    """A finding at a field; the message continues a sentence that begins with the field."""
    identity = document.identity
    return Finding(
        code=code,
        message=f"{field_text(path)} {message}",
        location=document.location_of(path),
        fix=fix,
        subject=f"{identity.kind} {identity.name}",
        path=path,
    )


def shows_values(document: Document) -> bool:
    """Whether a message may show values of a manifest: one of a Secret, or of a manifest that reads one, is hidden."""
    return document.body["kind"] != "Secret" and not any(
        getattr(each.query, "kind", "") == "Secret" or "Secret" in str(each.query) for each in document.dependencies
    )


def short_words(text: str) -> str:
    """The API server's words without its example and regular expression, which take more room than the rule."""
    return text.partition(" (e.g. ")[0]


_TOKEN = re.compile(r"[\w./-]+", re.ASCII)


def marked(finding: Finding, line: str) -> tuple[int, int]:
    """Where the part of its line begins that a finding names, and how long it is: the whole line without indentation if
    it names none.
    """
    tokens = [edit.old for edit in finding.edits]
    # A path comes before other words, and the end of a path is the key of its field.
    words = sorted(_TOKEN.findall(finding.message), key=lambda word: "." not in word)
    for word in words:
        tokens += [word, word.rpartition(".")[2]]
    for token in tokens:
        found = next((each for each in _TOKEN.finditer(line) if token in (each[0], each[0].strip("."))), None)
        if found is not None and len(token) > 2:
            return found.start(), len(token)
    text = line.strip()
    return line.index(text), len(text)
