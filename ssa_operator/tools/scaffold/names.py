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
    """The names of a custom resource. Raises ScaffoldError if the API server would refuse one."""

    kind: str
    group: str
    plural: str
    version: str

    def __post_init__(self) -> None:
        if not _KIND.fullmatch(self.kind) or len(self.kind) > _LABEL_LIMIT - len(_LIST):
            raise ScaffoldError(
                f"{self.kind!r} is no valid kind; use letters and digits and begin with a capital letter, as in WebSite"
                f" (at most {_LABEL_LIMIT - len(_LIST)} characters)"
            )
        if not _SUBDOMAIN.fullmatch(self.group) or len(self.group) > _SUBDOMAIN_LIMIT:
            raise ScaffoldError(
                f"{self.group!r} is no valid API group; use a domain of lower-case letters, digits and dashes with at "
                "least one dot, as in example.com"
            )
        if _PROTECTED.search(self.group):
            raise ScaffoldError(
                f"the API group {self.group} is reserved for Kubernetes; use a domain of your own, as in example.com"
            )
        if not _LABEL.fullmatch(self.plural) or len(self.plural) > _LABEL_LIMIT:
            raise ScaffoldError(
                f"{self.plural!r} is no valid plural; use lower-case letters, digits and dashes and begin with a "
                f"letter (at most {_LABEL_LIMIT} characters)"
            )
        if not _VERSION.fullmatch(self.version):
            raise ScaffoldError(f"{self.version!r} is no valid version; use one as v1, v1beta1 or v1alpha1")
        if len(self.folder) > _SUBDOMAIN_LIMIT:
            raise ScaffoldError(f"{self.folder} is longer than {_SUBDOMAIN_LIMIT} characters; use a shorter API group")

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
