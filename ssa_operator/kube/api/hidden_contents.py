"""Which requests of a parent must not quote contents of Secrets in their errors and warnings.

Promises:
- Every write of an object into which a render of the parent put a content hides it, whatever the request writes.
- If the parent's templates read a Secret, the stored object may hold a content, and errors quote the request only.
"""

from __future__ import annotations

from dataclasses import replace

from ssa_operator.kube.api.request import Request
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets


def hiding(request: Request, secrets: ParentSecrets) -> Request:
    """The request of a parent, whose errors and warnings quote nothing of the contents in its object."""
    if request.identity is None or secrets == NO_SECRETS:
        return request
    fields = request.secret | secrets.of(request.identity)
    return replace(request, secret=fields, quotes_sent_only=secrets.read)
