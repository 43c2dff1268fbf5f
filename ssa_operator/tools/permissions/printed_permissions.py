"""Prints the permissions that an operator needs, for `ssa-operator rbac`, or those that an account lacks.

Promises:
- The output is a ServiceAccount, the roles and their bindings, in an order that depends on nothing but the templates.
- In YAML, each rule has a comment with its purpose and the template files that need it.
- With `--impersonate`, the roles of the impersonated accounts follow, without bindings: an administrator decides which
  accounts have them.
- What can't be derived from the templates is a warning on standard error, with file and line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.objects.messages import counted
from ssa_operator.objects.source_location import location_data
from ssa_operator.operator.permissions.operator_needs import PermissionNeed
from ssa_operator.operator.permissions.rbac_roles import (
    Account,
    PolicyRule,
    Role,
    binding_body,
    role_body,
    roles,
    service_account,
    verb_order,
)
from ssa_operator.operator.permissions.requests import missing_permissions, served_kind
from ssa_operator.operator.process import connection, streams
from ssa_operator.operator.process.streams import CommandError, OutputFormat
from ssa_operator.rendering.yaml.to_yaml import yaml_document
from ssa_operator.tools import printing
from ssa_operator.tools.permissions.needed_permissions import (
    Files,
    NeededPermissions,
    OperatorSettings,
    needed_permissions,
)

_LABELS = {"app.kubernetes.io/name": "ssa-operator"}


def print_permissions(files: Files, settings: OperatorSettings, name: str, output: OutputFormat | None) -> None:
    """Print the manifests of a service account with this name, its roles and their bindings."""
    needed = _needed(files, settings)
    options = "".join(f" --namespace {each}" for each in settings.namespaces)
    options += f" --shards {settings.shards}" if settings.shards else ""
    options += f" --impersonate {settings.impersonate}" if settings.impersonate else ""
    options += f" --admission-service {settings.admission_service}" if settings.admission_service else ""
    options += f" --conversion-service {settings.conversion_service}" if settings.conversion_service else ""
    account = Account(name=name, namespace=settings.namespace)
    children = Account(name=f"{name}-children", namespace=settings.namespace)
    own = list(roles((need for need in needed.needs if not need.by_account), account))
    of_accounts = roles((need for need in needed.needs if need.by_account), children)
    bodies = [service_account(account, _LABELS)]
    for role in own:
        bodies += [role_body(role, _LABELS), binding_body(role, account, _LABELS)]
    bodies += [role_body(role, _LABELS) for role in of_accounts]
    if output is OutputFormat.JSON:
        printing.objects(bodies, output)
        return
    lines = [
        f"# The permissions that the operator needs, derived from its templates by `ssa-operator rbac{options}`:",
        *(f"# - {folder}" for folder in needed.folders),
        yaml_document(bodies[0]).rstrip("\n"),
    ]
    for role in own:
        lines += ["---", *_role_lines(role)]
        lines += ["---", yaml_document(binding_body(role, account, _LABELS)).rstrip("\n")]
    for role in of_accounts:
        lines += ["---", *_grant_comment(role, settings.impersonate), *_role_lines(role)]
    streams.lines("\n".join(lines))


def print_chart_values(files: Files, settings: OperatorSettings) -> None:
    """Print the cluster-wide rules as values of the chart."""
    streams.lines(values_text(_needed(files, settings)))


def print_missing(
    files: Files, settings: OperatorSettings, output: OutputFormat | None, target: connection.Target
) -> None:
    """Print the permissions that the current account lacks. Raises CommandError if there are any."""

    async def work() -> None:
        async with connection.connect(target) as client:
            mapper = RESTMapper(client)
            await mapper.discover()
            needed = _warned(needed_permissions(files, settings, served_in=lambda kind: served_kind(kind, mapper)))
            own = [need for need in needed.needs if not need.by_account]
            _report(await missing_permissions(client, own), output)

    connection.run(work())


def _report(missing: Sequence[PermissionNeed], output: OutputFormat | None) -> None:
    if output is None and not missing:
        streams.line("the current account has all permissions that the templates need")
    else:
        _print_needs(missing, output)
    if missing:
        count = len({need.permission for need in missing})
        raise CommandError(
            f"the current account lacks {counted(count, 'permission')}; grant what `ssa-operator rbac` prints"
        )


def _needed(files: Files, settings: OperatorSettings) -> NeededPermissions:
    return _warned(needed_permissions(files, settings))


def _warned(needed: NeededPermissions) -> NeededPermissions:
    for warning in needed.warnings:
        streams.error(f"warning: {warning}")
    return needed


def _print_needs(needs: Iterable[PermissionNeed], output: OutputFormat | None) -> None:
    ordered = sorted(needs, key=lambda need: (need.permission, need.purpose, need.origin))
    if output in (OutputFormat.JSON, OutputFormat.YAML):
        printing.data([_need_entry(need) for need in ordered], output)
        return
    rows: dict[tuple[str, ...], list[str]] = {}
    for need in sorted(ordered, key=lambda need: verb_order(need.permission.verb)):
        each = need.permission
        row = (each.resource_name, each.namespace, each.name, need.purpose, need.origin)
        rows.setdefault(row, []).append(each.verb)
    printing.table(
        ("RESOURCE", "NAMESPACE", "NAME", "VERBS", "PURPOSE", "NEEDED BY"),
        (
            (resource, namespace, name, ",".join(dict.fromkeys(verbs)), purpose, origin)
            for (resource, namespace, name, purpose, origin), verbs in sorted(rows.items())
        ),
    )


def _need_entry(need: PermissionNeed) -> dict[str, Any]:
    permission = need.permission
    entry: dict[str, Any] = {
        "group": permission.group,
        "resource": permission.resource,
        "verb": permission.verb,
        "namespace": permission.namespace,
        "name": permission.name,
        "purpose": need.purpose,
        "folder": need.folder,
    }
    return entry | location_data(need.location)


# Manifests.


def _grant_comment(role: Role, account: str) -> list[str]:
    """How to grant a role of the accounts with this name."""
    if role.namespace:
        what = f"# What an account {account} needs in the namespace {role.namespace}."
        return [f"{what} Bind it to those that may have it."]
    binding = f"--clusterrole={role.name} --serviceaccount=NAMESPACE:{account}"
    return [
        f"# What an account {account} needs in its own namespace. Bind it there:",
        f"# kubectl create rolebinding {role.name} --namespace=NAMESPACE {binding}",
    ]


def values_text(needed: NeededPermissions) -> str:
    """The cluster-wide rules as values of the chart."""
    account = Account(name="ssa-operator", namespace="ssa-operator")
    cluster_wide = [role for role in roles(needed.needs, account) if not role.namespace]
    lines = [
        "# The permissions that the operator needs, derived from its templates by `ssa-operator rbac --helm-values`:",
        *(f"# - {folder}" for folder in needed.folders),
        "rbac:",
        "  rules:",
        *(line for role in cluster_wide for rule in role.rules for line in _rule_lines(rule)),
    ]
    return "\n".join(lines) + "\n"


def _role_lines(role: Role) -> list[str]:
    """A role as YAML."""
    body = role_body(role, _LABELS)
    del body["rules"]
    return [
        yaml_document(body).rstrip("\n"),
        "rules:",
        *(line for rule in role.rules for line in _rule_lines(rule)),
    ]


def _rule_lines(rule: PolicyRule) -> list[str]:
    """A rule as YAML, after comments with its purposes and the files that need it."""
    files: dict[str, set[str]] = {}
    for need in rule.needs:
        purpose = f"{need.purpose} ({need.folder})" if need.folder else need.purpose
        named = files.setdefault(purpose, set())
        if need.location is not None:
            named.add(need.location.file.removeprefix(f"{need.folder}/"))
    lines = []
    for purpose, named in sorted(files.items()):
        text = f"{purpose}: {', '.join(sorted(named))}" if named else purpose
        lines += textwrap.wrap(text, 110, initial_indent="  # ", subsequent_indent="  #   ", break_on_hyphens=False)
    fields = [f"{name}: {_flow(values)}" for name, values in rule.body.items()]
    return [*lines, f"  - {fields[0]}", *(f"    {each}" for each in fields[1:])]


def _flow(values: list[str]) -> str:
    """A list of strings in one line of YAML."""
    return "[" + ", ".join(each if each and each[0].isalpha() else f'"{each}"' for each in values) + "]"
