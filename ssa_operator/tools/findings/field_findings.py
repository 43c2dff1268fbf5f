"""The finding about one field of a manifest, and the words of its message."""

from __future__ import annotations

from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, field_text
from ssa_operator.tools.findings.findings import Finding


def field_finding(document: Document, code: str, path: FieldPath, message: str, fix: str) -> Finding:
    """A finding at a field; the message continues a sentence that begins with the field."""
    identity = document.identity
    return Finding(
        code=code,
        message=f"{field_text(path)} {message}",
        location=document.location_of(path),
        fix=fix,
        subject=f"{identity.kind} {identity.name}",
    )


def shows_values(document: Document) -> bool:
    """Whether a message may show values of a manifest: one of a Secret, or of a manifest that reads one, is hidden."""
    return document.body["kind"] != "Secret" and not any(
        getattr(each.query, "kind", "") == "Secret" or "Secret" in str(each.query) for each in document.dependencies
    )


def short_words(text: str) -> str:
    """The API server's words without its example and regular expression, which take more room than the rule."""
    return text.partition(" (e.g. ")[0]
