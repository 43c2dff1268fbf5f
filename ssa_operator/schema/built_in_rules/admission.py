"""What the API server requires of webhooks for admission and of APIServices.

The rules are those of k8s.io/kubernetes (pkg/apis/admissionregistration/validation) and k8s.io/kube-aggregator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from ssa_operator.objects.source_location import FieldPath, value_at
from ssa_operator.schema.built_in_rules.constraints import (
    PORT,
    Constraint,
    at_most,
    between,
    choice,
    every,
    exactly_one,
    fields,
    item_choices,
    items,
    required,
    set_choice,
    text,
    unique,
)
from ssa_operator.schema.built_in_rules.text_rules import KEY, SELECTOR, base64_text
from ssa_operator.schema.cel.syntax import CELSyntaxError, parse
from ssa_operator.schema.field_errors import ErrorType, FieldError, error_at
from ssa_operator.schema.metadata_validation import dns1035_faults, subdomain_faults

_OPERATIONS = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")


def _name_faults(name: str) -> list[str]:
    faults = subdomain_faults(name)
    return faults or (
        ["should be a domain with at least three segments separated by dots"] if name.count(".") < 2 else []
    )


def _url_faults(url: str) -> list[str]:
    try:
        found = urlsplit(url)
    except ValueError as error:
        return [f"url must be a valid URL: {error}"]
    if found.scheme != "https":
        return [f"'https' is the only allowed URL scheme; desired format: https://host[/path], found {url}"]
    if not found.netloc:
        return ["host must be specified; desired format: https://host[/path]"]
    faults = ["user information is not permitted in the URL"] if "@" in found.netloc else []
    faults += ["fragments are not permitted in the URL"] if found.fragment else []
    return [*faults, *(["query parameters are not permitted in the URL"] if found.query else [])]


def _path_faults(path: str) -> list[str]:
    if not path.startswith("/"):
        return ["must start with a '/'"]
    if path == "/":
        return []
    parts = path.removeprefix("/").removesuffix("/").split("/")
    faults = []
    for number, part in enumerate(parts):
        if not part:
            faults.append(f"segment[{number}] may not be empty")
        else:
            faults += [f"segment[{number}]: {words}" for words in subdomain_faults(part)]
    return faults[:1]


def _only_wildcard(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, list) and "*" in value and len(value) > 1:
        yield error_at(path, value, "if '*' is present, must not specify other values")


def _no_empty(value: Any, path: FieldPath) -> Iterator[FieldError]:
    for position, item in enumerate(value if isinstance(value, list) else ()):
        if item == "":
            yield error_at((*path, position), kind=ErrorType.REQUIRED)


def _resources(value: Any, path: FieldPath) -> Iterator[FieldError]:
    resources = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
    for position, name in enumerate(resources):
        main, slash, sub = name.partition("/")
        at = (*path, position)
        if name == "":
            yield error_at(at, kind=ErrorType.REQUIRED)
        elif slash and not sub:
            yield error_at(at, name, "must be in the form resource or resource/subresource")
        elif slash and main != "*" and f"{main}/*" in resources and sub != "*":
            yield error_at(at, name, f"if '{main}/*' is present, must not specify {name}")
        elif slash and f"*/{sub}" in resources and main != "*":
            yield error_at(at, name, f"if '*/{sub}' is present, must not specify {name}")
    if "*/*" in resources and len(resources) > 1:
        yield error_at(path, resources, "if '*/*' is present, must not specify other resources")
    if "*" in resources and any("/" not in each and each != "*" for each in resources):
        words = "if '*' is present, must not specify other resources without subresources"
        yield error_at(path, resources, words)


RULE = fields(
    {
        "operations": every(item_choices(*_OPERATIONS), _only_wildcard),
        "apiGroups": _only_wildcard,
        "apiVersions": every(_only_wildcard, _no_empty),
        "resources": _resources,
        "scope": set_choice("*", "Cluster", "Namespaced"),
    },
    required("operations", "apiGroups", "apiVersions", "resources"),
)

_SERVICE = fields(
    {"path": text(_path_faults), "port": PORT},
    required("name", detail="service name is required"),
    required("namespace", detail="service namespace is required"),
)
CLIENT = fields(
    {"url": text(_url_faults), "service": _SERVICE, "caBundle": base64_text},
    exactly_one("url", "service", what="url or service"),
)


def _versions(value: Any, path: FieldPath) -> Iterator[FieldError]:
    versions = [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
    for position, version in enumerate(versions):
        yield from (error_at((*path, position), version, words) for words in dns1035_faults(version))
        if version in versions[:position]:
            yield error_at((*path, position), version, "duplicate version")
    if versions and not {"v1", "v1beta1"} & set(versions):
        words = "must include at least one of v1, v1beta1"
        yield error_at(path, versions, words)


_VARIABLES = frozenset({"object", "oldObject", "request", "authorizer", "namespaceObject", "params", "variables"})


def _condition_faults(expression: str) -> list[str]:
    """What is wrong with the syntax and the variables of a CEL expression."""
    try:
        node = parse(expression)
    except CELSyntaxError as error:
        return [f"compilation failed: {error}"]
    # Only a bare name is surely none of a macro's variables.
    unknown = {node.value} - _VARIABLES if node.kind == "name" else set()
    return [f"compilation failed: undeclared reference to {each!r}" for each in unknown]


_CONDITIONS = every(
    items(fields({"name": KEY, "expression": text(_condition_faults)}, required("name", "expression"))),
    unique("name"),
    at_most(64),
)


def _webhooks(**more: Constraint) -> Constraint:
    return fields(
        {
            "webhooks": every(
                items(
                    fields(
                        {
                            "name": text(_name_faults),
                            "rules": items(RULE),
                            "clientConfig": CLIENT,
                            "failurePolicy": set_choice("Fail", "Ignore"),
                            "matchPolicy": set_choice("Equivalent", "Exact"),
                            "sideEffects": choice("None", "NoneOnDryRun"),
                            "timeoutSeconds": between(1, 30),
                            "namespaceSelector": SELECTOR,
                            "objectSelector": SELECTOR,
                            "admissionReviewVersions": _versions,
                            "matchConditions": _CONDITIONS,
                            **more,
                        },
                        required("name", "clientConfig"),
                        required("sideEffects", detail="must specify one of None, NoneOnDryRun"),
                        required("admissionReviewVersions", detail="must specify one of v1, v1beta1"),
                    )
                ),
                unique("name"),
            )
        }
    )


VALIDATING = _webhooks()
MUTATING = _webhooks(reinvocationPolicy=set_choice("IfNeeded", "Never"))


def _api_service_name(value: Any, path: FieldPath) -> Iterator[FieldError]:
    name = value_at(value, ("metadata", "name"))
    version, group = value_at(value, ("spec", "version")), value_at(value, ("spec", "group"))
    wanted = f"{version or ''}.{group or ''}"
    if isinstance(name, str) and isinstance(version or "", str) and isinstance(group or "", str) and name != wanted:
        if not (group or name != f"{version}"):
            return
        yield error_at((*path, "metadata", "name"), name, f'must be `spec.version+"."+spec.group`: {wanted!r}')


def _tls(value: Any, path: FieldPath) -> Iterator[FieldError]:
    if isinstance(value, Mapping) and value.get("insecureSkipTLSVerify") is True and value.get("caBundle"):
        words = "may not be true if caBundle is present"
        yield error_at((*path, "insecureSkipTLSVerify"), True, words)
    service = value.get("service") if isinstance(value, Mapping) else None
    if isinstance(value, Mapping) and service is None and (value.get("caBundle") or value.get("insecureSkipTLSVerify")):
        for name in ("caBundle", "insecureSkipTLSVerify"):
            if value.get(name):
                yield error_at((*path, name), detail="local APIServices may not have it", kind=ErrorType.INVALID)


API_SERVICE = fields(
    {
        "spec": fields(
            {
                "version": text(dns1035_faults),
                "group": text(subdomain_faults),
                "groupPriorityMinimum": between(1, 20000),
                "versionPriority": between(1, 1000),
                "service": fields({"port": PORT}, required("name", "namespace")),
                "caBundle": base64_text,
            },
            required("version"),
            required("groupPriorityMinimum", "versionPriority"),
            _tls,
        )
    },
    _api_service_name,
)
