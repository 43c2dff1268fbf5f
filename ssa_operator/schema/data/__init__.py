"""The schemas of Kubernetes' kinds, and which fields their objects may lack. See the README beside this file.

Promises:
- A field is optional if the schema of its kind declares it and doesn't require it. An entry of a map is no field, and
  no field of `status` is optional: a controller will write it.
- Nothing is optional of a kind whose schema is not known.
"""

from __future__ import annotations

import gzip
from functools import cache
from importlib import resources

import msgspec

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.json_schema import Schema, fields
from ssa_operator.objects.source_location import FieldPath
from ssa_operator.schema.kubernetes_schemas import METADATA, KubernetesSchemas


@cache
def built_in_schemas() -> KubernetesSchemas:
    """The schemas of the newest version of Kubernetes that the package knows."""
    content = (resources.files(__name__) / f"kubernetes-{KUBERNETES_VERSION}.json.gz").read_bytes()
    return msgspec.json.decode(gzip.decompress(content), type=KubernetesSchemas)


def is_optional(api_version: str, kind: str, path: FieldPath, schema: Schema | None = None) -> bool:
    """Whether an object of a kind may lack a field. `schema` is that of its CRD, None for a built-in kind."""
    if not path or path[0] == "status":
        return False
    built_in = built_in_schemas()
    found = (built_in.schema(api_version, kind) if schema is None else schema) or {}
    if schema is not None and path[0] == "metadata":  # no CRD declares it
        found = {"properties": {"metadata": {"$ref": METADATA}}}
    for part in path[:-1]:
        found = built_in.resolved((found.get("items") if isinstance(part, int) else fields(found).get(part)) or {})
    return path[-1] in fields(found) and path[-1] not in (found.get("required") or ())
