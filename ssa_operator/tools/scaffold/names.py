"""The names of a new resource.

Promises:
- A name that the API server would refuse is refused with the reason.
"""

from __future__ import annotations

import re

from msgspec import Struct


class ScaffoldError(ValueError):
    """The request can't be fulfilled. The message says why, and what to do."""


_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")
_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_LABEL_LIMIT = 63
_SUBDOMAIN_LIMIT = 253
_LIST = "List"
_PROTECTED = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")


class ResourceNames(Struct, frozen=True, kw_only=True):
    """The names of a custom resource."""

    kind: str
    group: str
    plural: str
    version: str

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def folder(self) -> str:
        """The name of the CRD and of the template folder."""
        return f"{self.plural}.{self.group}"

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"


def refuse_invalid_names(names: ResourceNames) -> None:
    """Raise ScaffoldError if the API server would refuse a name, or a new group with it."""
    if not _KIND.fullmatch(names.kind) or len(names.kind) > _LABEL_LIMIT - len(_LIST):
        raise ScaffoldError(
            f"{names.kind!r} is no valid kind; use letters and digits and begin with a capital letter, as in WebSite"
            f" (at most {_LABEL_LIMIT - len(_LIST)} characters)"
        )
    if not _SUBDOMAIN.fullmatch(names.group) or len(names.group) > _SUBDOMAIN_LIMIT:
        raise ScaffoldError(
            f"{names.group!r} is no valid API group; use a domain of lower-case letters, digits and dashes with at "
            "least one dot, as in example.com"
        )
    if is_protected(names.group):
        raise ScaffoldError(
            f"the API group {names.group} is reserved for Kubernetes; use a domain of your own, as in example.com, or "
            "name the file of its CRD with --from-crd"
        )
    if not _LABEL.fullmatch(names.plural) or len(names.plural) > _LABEL_LIMIT:
        raise ScaffoldError(
            f"{names.plural!r} is no valid plural; use lower-case letters, digits and dashes and begin with a "
            f"letter (at most {_LABEL_LIMIT} characters)"
        )
    if not _VERSION.fullmatch(names.version):
        raise ScaffoldError(f"{names.version!r} is no valid version; use one as v1, v1beta1 or v1alpha1")
    if len(names.folder) > _SUBDOMAIN_LIMIT:
        raise ScaffoldError(f"{names.folder} is longer than {_SUBDOMAIN_LIMIT} characters; use a shorter API group")


def is_protected(group: str) -> bool:
    """Whether the API server asks for an approval of the CRDs of a group."""
    return _PROTECTED.search(group) is not None
