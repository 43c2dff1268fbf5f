"""`ssa-operator rbac`: prints the permissions that an operator with these templates needs, or reviews those it has.

Promises:
- The output is a ServiceAccount, the roles and their bindings, in an order that depends on nothing but the templates.
- In YAML, each rule has a comment with its purpose and the template files that need it; `--explain` names every
  template line.
- With `--impersonate`, the roles of the impersonated accounts follow, without bindings: an administrator decides which
  accounts have them.
- What can't be derived from the templates is a warning on standard error, with file and line.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ssa_operator.cli.shared_options import (
    TEMPLATES,
    AdmissionService,
    Context,
    CrdsOfTemplates,
    Examples,
    Impersonate,
    Kubeconfig,
    Templates,
    Values,
    account_name,
    example,
    installation_of,
    namespaces_of,
)
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.command_error import CommandError
from ssa_operator.operator.process.given_folders import check_folders
from ssa_operator.tools.offline.project_folders import crds_of, examples_of
from ssa_operator.tools.terminal.output_format import OutputFormat

if TYPE_CHECKING:
    from ssa_operator.operator.permissions.rbac_roles import Account, PolicyRule, Role
    from ssa_operator.operator.permissions.rules import PermissionNeed
    from ssa_operator.tools.permissions.needed_permissions import Files, NeededPermissions, OperatorSettings

_LABELS = {"app.kubernetes.io/name": "ssa-operator"}

LimitedNamespaces = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        "-n",
        envvar="SSA_OPERATOR_NAMESPACE",
        help="The operator watches only this namespace (repeatable); each gets a Role. Default: all namespaces.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator rbac --templates templates | kubectl apply -f -"))(rbac)


def rbac(
    templates: Templates = TEMPLATES,
    values: Values = None,
    crds: CrdsOfTemplates = None,
    examples: Examples = None,
    namespace: LimitedNamespaces = None,
    service_account: Annotated[
        str,
        typer.Option(
            envvar="SSA_OPERATOR_SERVICE_ACCOUNT",
            help="Name of the operator's service account, and of its roles and bindings.",
        ),
    ] = "ssa-operator",
    operator_namespace: Annotated[
        str,
        typer.Option(envvar="SSA_OPERATOR_OPERATOR_NAMESPACE", help="Namespace of the operator and its Lease."),
    ] = "ssa-operator",
    shards: Annotated[
        int,
        typer.Option(
            envvar="SSA_OPERATOR_SHARDS",
            min=0,
            max=256,
            help="Number of shards (`run --shard I/N`) (`run --shard I/N`), each with a Lease.",
        ),
    ] = 0,
    impersonate: Impersonate = "",
    admission_service: AdmissionService = "",
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            envvar="SSA_OPERATOR_EXPLAIN",
            help="List every permission with the template lines that need it.",
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            envvar="SSA_OPERATOR_CHECK",
            help="List the permissions that the current account lacks in the cluster, and exit with 1 if it lacks any.",
        ),
    ] = False,
    as_user: Annotated[
        str,
        typer.Option(
            "--as",
            envvar="SSA_OPERATOR_AS",
            help="With --check: review this user instead, for example system:serviceaccount:NAMESPACE:NAME.",
        ),
    ] = "",
    output: Annotated[
        OutputFormat | None,
        typer.Option(
            "--output",
            "-o",
            envvar="SSA_OPERATOR_OUTPUT",
            help="Output format. Default: yaml, with --explain or --check table.",
        ),
    ] = None,
    helm_values: Annotated[
        bool,
        typer.Option(
            "--helm-values",
            envvar="SSA_OPERATOR_HELM_VALUES",
            help="Print the cluster-wide rules as values of the operator's Helm chart, which has the rest.",
        ),
    ] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print the permissions that the operator needs for these templates, as manifests. No cluster is needed."""
    from ssa_operator.tools.permissions.needed_permissions import Files, OperatorSettings, needed_permissions

    check_folders(templates)
    account_name(impersonate)
    namespaces = namespaces_of(namespace)
    (operator_namespace,) = namespaces_of([operator_namespace]) or ("",)
    if not operator_namespace:
        raise CommandError("--operator-namespace is empty; name the namespace of the operator", code=2)
    if as_user and not check:
        raise CommandError("--as reviews another user; write --check, too", code=2)
    if output is OutputFormat.TABLE and not (explain or check):
        raise CommandError("--output table is for --explain and --check; manifests are yaml or json", code=2)
    if helm_values and (namespace or impersonate or explain or check or output is not None):
        others = "--namespace, --impersonate, --explain, --check and --output"
        raise CommandError(f"--helm-values prints cluster-wide rules as YAML; {others} have no place there", code=2)
    files = Files(
        templates=templates,
        installation=installation_of(values, operator_namespace),
        crds=crds_of(templates, crds),
        examples=examples_of(examples, templates),
    )
    settings = OperatorSettings(
        namespace=operator_namespace,
        namespaces=namespaces,
        shards=shards,
        impersonate=impersonate,
        admission=bool(admission_service),
    )
    if check:
        _check(files, settings, as_user, output, kubeconfig, context)
        return
    needed = needed_permissions(files, settings)
    _warn(needed)
    if explain:
        _print_needs(needed.needs, output)
        return
    from ssa_operator.operator.permissions.rbac_roles import Account, roles

    if helm_values:
        streams.lines(values_text(needed))
        return
    account = Account(name=service_account, namespace=operator_namespace)
    options = "".join(f" --namespace {name}" for name in namespaces) + (f" --shards {shards}" if shards else "")
    options += f" --impersonate {impersonate}" if impersonate else ""
    options += f" --admission-service {admission_service}" if admission_service else ""
    own = roles((need for need in needed.needs if not need.by_account), account)
    children = Account(name=f"{service_account}-children", namespace=operator_namespace)
    _print_manifests(
        own,
        account,
        needed.folders,
        options,
        output,
        _AccountRoles(name=impersonate, roles=roles((need for need in needed.needs if need.by_account), children)),
    )


def _warn(needed: NeededPermissions) -> None:
    for warning in needed.warnings:
        streams.error(f"warning: {warning}")


def _check(
    files: Files,
    settings: OperatorSettings,
    as_user: str,
    output: OutputFormat | None,
    kubeconfig: str | None,
    context: str | None,
) -> None:
    """Print the missing permissions. Raises CommandError if there are any."""
    from ssa_operator.kube.api.access_reviews import Subject
    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.operator.permissions.requests import missing_permissions, served_kind
    from ssa_operator.operator.process import connection
    from ssa_operator.tools.permissions.needed_permissions import needed_permissions

    async def work() -> None:
        async with connection.connect(connection.Target(kubeconfig=kubeconfig, context=context)) as client:
            mapper = RESTMapper(client)
            await mapper.discover()
            needed = needed_permissions(files, settings, served_in=lambda kind: served_kind(kind, mapper))
            _warn(needed)
            subject = Subject.of(as_user) if as_user else None
            own = [need for need in needed.needs if not need.by_account]
            _report(await missing_permissions(client, own, subject), as_user, output)

    connection.run(work())


def _report(missing: Sequence[PermissionNeed], as_user: str, output: OutputFormat | None) -> None:
    """Print the missing permissions. Raises CommandError if there are any."""
    from ssa_operator.objects.messages import counted

    who = as_user or "the current account"
    if output is None and not missing:
        streams.line(f"{who} has all permissions that the templates need")
    else:
        _print_needs(missing, output)
    if missing:
        count = len({need.permission for need in missing})
        raise CommandError(f"{who} lacks {counted(count, 'permission')}; grant what `ssa-operator rbac` prints")


# Permissions, one a row.


def _print_needs(needs: Iterable[PermissionNeed], output: OutputFormat | None) -> None:
    from ssa_operator.operator.permissions.rbac_roles import verb_order
    from ssa_operator.tools.terminal import printing

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
    if need.location is not None:
        entry |= {"file": need.location.file, "line": need.location.line}
    return entry


# Manifests.


class _AccountRoles(NamedTuple):
    """The roles of the accounts that the operator impersonates, which nothing binds."""

    name: str
    """The name of the accounts, '' for none."""
    roles: Sequence[Role]

    def comment(self, role: Role) -> list[str]:
        """How to grant a role."""
        if role.namespace:
            what = f"# What an account {self.name} needs in the namespace {role.namespace}."
            return [f"{what} Bind it to those that may have it."]
        binding = f"--clusterrole={role.name} --serviceaccount=NAMESPACE:{self.name}"
        return [
            f"# What an account {self.name} needs in its own namespace. Bind it there:",
            f"# kubectl create rolebinding {role.name} --namespace=NAMESPACE {binding}",
        ]


def _print_manifests(
    granted: Iterable[Role],
    account: Account,
    folders: Iterable[str],
    options: str,
    output: OutputFormat | None,
    of_accounts: _AccountRoles,
) -> None:
    """Print the manifests, with the command's options in a comment."""
    from ssa_operator.operator.permissions.rbac_roles import binding_body, role_body, service_account
    from ssa_operator.tools.terminal import printing

    granted = list(granted)
    bodies = [service_account(account, _LABELS)]
    for role in granted:
        bodies += [role_body(role, _LABELS), binding_body(role, account, _LABELS)]
    bodies += [role_body(role, _LABELS) for role in of_accounts.roles]
    if output is OutputFormat.JSON:
        printing.objects(bodies, output)
        return
    lines = [
        f"# The permissions that the operator needs, derived from its templates by `ssa-operator rbac{options}`:",
        *(f"# - {folder}" for folder in folders),
        printing.yaml_text(bodies[0]).rstrip("\n"),
    ]
    for role in granted:
        lines += ["---", *_role_lines(role)]
        lines += ["---", printing.yaml_text(binding_body(role, account, _LABELS)).rstrip("\n")]
    for role in of_accounts.roles:
        lines += ["---", *of_accounts.comment(role), *_role_lines(role)]
    streams.lines("\n".join(lines))


def values_text(needed: NeededPermissions) -> str:
    """The cluster-wide rules as values of the chart."""
    from ssa_operator.operator.permissions.rbac_roles import Account, roles

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
    from ssa_operator.operator.permissions.rbac_roles import role_body
    from ssa_operator.tools.terminal import printing

    body = role_body(role, _LABELS)
    del body["rules"]
    return [
        printing.yaml_text(body).rstrip("\n"),
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
