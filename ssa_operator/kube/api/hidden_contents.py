"""Which requests of a parent must not quote contents of Secrets in their errors and warnings.

Promises:
- If a render of the parent put content into an object, every write of the object hides it, whatever the request writes.
- If the parent's templates read a Secret, the stored object may hold content, and errors quote only the request.
"""

from __future__ import annotations

from dataclasses import replace

from ssa_operator.kube.api.request import Request
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets


def hiding(request: Request, secrets: ParentSecrets) -> Request:
    """The request of a parent, changed so that its errors and warnings quote no content of its object."""
    if request.identity is None or secrets == NO_SECRETS:
        return request
    fields = request.secret | secrets.of(request.identity)
    return replace(request, secret=fields, quotes_sent_only=secrets.read)
