"""What `check` found: one finding, and the edits that correct it.

Promises:
- Every finding has a code of CODES, a message, and the file and line that cause it.
- What another rule has to know of a finding is a field. No rule reads a message.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.tools.findings.codes import CODES, Severity


class Edit(Struct, frozen=True, kw_only=True):
    """A replacement of text in the line of a finding."""

    column: int | None
    """Where the old text begins, from 0. None for the key of a field, if the line has it once."""
    old: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that `check` found."""

    code: str
    """A key of CODES."""
    message: str
    location: SourceLocation | None = None
    """The line that causes it; None if no file has it, as for a missing example."""
    fix: str = ""
    """What to write instead, in words; '' if there is no single answer."""
    edits: tuple[Edit, ...] = ()
    """The edits of `check --fix`. They keep the author's meaning."""
    subject: str = field(default="", compare=False)
    """The manifest that shows it. Several manifests of one line show it only once."""
    about: str = field(default="", compare=False)
    """The variable, or the template folder, that it is about; '' if its line says it."""

    @property
    def severity(self) -> Severity:
        return CODES[self.code].severity

    @property
    def text(self) -> str:
        """The message with its subject."""
        return f"{self.subject}: {self.message}" if self.subject else self.message

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location else ""
        return f"{where}{self.severity} {self.code}: {self.text}" + (f"; {self.fix}" if self.fix else "")
