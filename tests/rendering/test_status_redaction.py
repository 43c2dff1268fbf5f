"""Which words a redaction regards as public."""

from __future__ import annotations

import base64

from ssa_operator.rendering.status_redaction import redactor_of
from tests.rendering.template_files import HEAD, parent, templates

UID = "31304af6-d6f3-48f0-a92c-a04d567f1df9"


def test_the_uid_of_the_parent_is_public_even_if_a_secret_has_it() -> None:
    """Every child has it in a label and in its owner reference."""
    text = base64.b64encode(UID.encode()).decode()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"kid": text}}
    body = parent()
    body["metadata"] = {**body["metadata"], "uid": UID}
    redactor = redactor_of([secret], templates({"a.yaml": HEAD}), body)
    assert redactor.redact(f"owned by {UID}") == f"owned by {UID}"
    assert redactor_of([secret], templates({"a.yaml": HEAD}), parent()).contains_secret(UID)
