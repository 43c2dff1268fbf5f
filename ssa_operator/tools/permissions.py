"""The permissions that an operator needs, derived from template folders, CRDs and example parents, and printed for
`ssa-operator rbac`; or those that an account lacks.

Promises:
- A folder that doesn't load, and a file that is not a manifest, are errors with file and line. A kind that only a
  render knows is covered as far as the examples render it. It is a warning, as is whatever can't be derived.
- The output is a ServiceAccount, the roles and their bindings, in an order that depends on nothing but the templates.
- In YAML, each rule has a comment with its purpose and the template files that need it.
- With `--impersonate`, the roles of the impersonated accounts follow, without bindings: an administrator decides which
  accounts have them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.objects.annotations import PREFIX, is_finalize_hook
from ssa_operator.objects.cluster_view import Lookup, OfflineClusterView, Selection
from ssa_operator.objects.identity import GroupKind, is_built_in
from ssa_operator.objects.kinds import ServedKind
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.messages import counted
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation, location_data
from ssa_operator.objects.template_contents import (
    PARENT_NAMESPACE,
    PossibleLookup,
    PossibleManifest,
    TemplateContents,
)
from ssa_operator.operator.permissions import requests
from ssa_operator.operator.permissions.operator_needs import (
    PermissionNeed,
    admission_needs,
    conversion_needs,
    http_needs,
    impersonation_needs,
    kind_needs,
    lease_needs,
    operator_needs,
    rollout_needs,
)
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
from ssa_operator.operator.permissions.requests import missing_permissions
from ssa_operator.operator.permissions.template_needs import folder_needs
from ssa_operator.operator.process import connection, streams
from ssa_operator.operator.process.streams import CommandError, OutputFormat
from ssa_operator.operator.shards.rules import shard_lease_needs
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources, load_all
from ssa_operator.rendering.folder.object_files import FileError, load_objects
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.rendering.render import render, render_status
from ssa_operator.rendering.yaml.to_yaml import yaml_document
from ssa_operator.schema.crd_schema import field_options
from ssa_operator.tools import printing
from ssa_operator.tools.offline.offline_cluster import created_parent
from ssa_operator.tools.offline.project import (
    CRDKind,
    cluster_scoped,
    custom_kinds,
    find_folder,
    parent_kind,
    read_crd_kinds,
    read_version,
    served_kind,
)

ServedIn = Callable[[GroupKind], ServedKind | None]
"""How a cluster serves a kind, None if it doesn't."""


class Files(Struct, frozen=True, kw_only=True):
    """The files that permissions are derived from."""

    templates: Sequence[Path]
    installation: Installation
    crds: Sequence[Path]
    examples: Sequence[Path]
    """Files and folders with parents."""


class OperatorSettings(Struct, frozen=True, kw_only=True):
    """The options of an operator that change what it needs."""

    namespace: str
    """The operator's own namespace."""
    namespaces: Sequence[str] = ()
    """The namespaces that it is limited to, none for all."""
    shards: int = 0
    """The number of shards that it runs as, 0 without shards."""
    impersonate: str = ""
    """The name of the account that it acts as, '' for none."""
    admission_service: str = ""
    """The Service that leads to its webhook, '' for none."""
    conversion_service: str = ""
    """The Service that leads to its conversion webhook, '' for none."""


class NeededPermissions(Struct, frozen=True, kw_only=True):
    """The permissions that an operator with these files needs."""

    needs: tuple[PermissionNeed, ...]
    folders: tuple[str, ...]
    """The names of the template folders."""
    warnings: tuple[str, ...]
    """The parts that can't be derived, each with file and line."""


def needed_permissions(
    files: Files, settings: OperatorSettings, served_in: ServedIn = lambda _: None
) -> NeededPermissions:
    """The permissions of an operator with these settings. `served_in` knows kinds better than the CRD files. Raises
    CommandError.
    """
    namespaces, impersonate = settings.namespaces, settings.impersonate
    sources = load_all(files.templates, installation=files.installation)
    if sources.problem_lines:
        raise CommandError("\n".join(sources.problem_lines))
    kinds = read_crd_kinds(files.crds)
    shown = _shown_by_examples(files.examples, sources, kinds)
    needs = [*operator_needs(), *http_needs(), *lease_needs(settings.namespace), *kind_needs(settings.namespace)]
    needs += impersonation_needs(impersonate, namespaces) if impersonate else ()
    needs += shard_lease_needs(settings.namespace, range(settings.shards)) if settings.shards else ()
    needs += admission_needs(settings.namespace) if settings.admission_service else ()
    if settings.conversion_service:
        converting = (name for name, each in sources.folders.items() if each.templates and each.templates.conversions)
        needs += conversion_needs(settings.namespace, sorted(converting))
    if any(folder.settings.rollout is not None for folder in sources.folders.values()):
        needs += rollout_needs(settings.namespace)
    warnings: list[str] = []
    for name, folder in sorted(sources.folders.items()):
        contents = _contents(folder, kinds, shown.get(name, TemplateContents()))
        served = {}
        for kind, location in sorted(contents.kinds.items()):
            served[kind] = served_in(kind) or served_kind(kind, kinds)
            if kind not in kinds and not is_built_in(kind.group) and served_in(kind) is None:
                warnings.append(_guessed(kind, served[kind], location))
        if not is_built_in(folder.group) and not any(each.folder == name for each in kinds.values()):
            warnings.append(
                f"{name}: there is no CRD file of it, so its parents count as namespaced, with a status; name the "
                "folder of its CRD with --crds"
            )
        found, unknown = folder_needs(parent_kind(folder, kinds), contents, served, namespaces, impersonate)
        needs += found
        warnings += map(str, (*contents.unknown, *unknown))
    return NeededPermissions(
        needs=tuple(dict.fromkeys(needs)),
        folders=tuple(sorted(sources.folders)),
        warnings=tuple(dict.fromkeys(warnings)),
    )


def _guessed(kind: GroupKind, served: ServedKind, location: SourceLocation) -> str:
    return (
        f"{location}: there is no CRD file of {kind}, so its resource counts as {served.resource}.{kind.group}, "
        "namespaced; name the folder of its CRD with --crds"
    )


def _contents(folder: Folder, kinds: Mapping[GroupKind, CRDKind], shown: TemplateContents) -> TemplateContents:
    """The contents of a folder; from the examples, only the kinds that the text doesn't show."""
    known = next((each for each in kinds.values() if each.folder == folder.name), None)
    options: Callable[[tuple[str, ...]], frozenset[str] | None] = lambda _: None  # noqa: E731
    if known is not None:
        options = partial(field_options, known.definition, read_version(folder, known.definition))
    contents = template_contents(folder, options)
    rendered = {each.group_kind for each in contents.manifests}
    looked_up = {each.group_kind for each in contents.lookups}
    return replace(
        contents,
        manifests=(*contents.manifests, *(each for each in shown.manifests if each.group_kind not in rendered)),
        lookups=(*contents.lookups, *(each for each in shown.lookups if each.group_kind not in looked_up)),
    )


def _shown_by_examples(
    examples: Iterable[Path], sources: Sources, kinds: Mapping[GroupKind, CRDKind]
) -> dict[str, TemplateContents]:
    """What the examples render and look up, by folder. An object that is no parent is left out."""
    try:
        documents = load_objects(path for path in examples if path.exists())
    except FileError as error:
        raise CommandError("\n".join(map(str, error.problems))) from error
    found: dict[str, TemplateContents] = {}
    view = OfflineClusterView(cluster_scoped=cluster_scoped(kinds), custom_kinds=custom_kinds(kinds))
    for document in documents:
        try:
            folder = find_folder(document.body, sources, kinds)
            parent = created_parent(document, folder, kinds, view.now).body
        except CommandError:
            continue
        rendered = render(folder, parent, view)
        asked = (*rendered.queries, *render_status(folder, parent, view).queries)
        before = found.get(folder.name, TemplateContents())
        lookups = [_lookup(query, document.location) for query in asked if isinstance(query, Lookup | Selection)]
        waiting = [
            PossibleManifest(group_kind=wait.identity.group_kind, location=wait.location, recreated=True)
            for wait in rendered.waits
            if wait.identity is not None
        ]
        found[folder.name] = replace(
            before,
            manifests=(*before.manifests, *map(_manifest, rendered.documents), *waiting),
            lookups=(*before.lookups, *lookups),
        )
    return found


def _manifest(document: Document) -> PossibleManifest:
    metadata = document.body["metadata"]
    annotations = metadata.get("annotations") or {}
    return PossibleManifest(
        group_kind=group_kind(document),
        location=document.location_of(("kind",)),
        namespace=metadata.get("namespace") or PARENT_NAMESPACE,
        finalize_hook=is_finalize_hook(annotations),
        recreated=annotations.get(f"{PREFIX}recreate", "Never") != "Never",
        pruned=annotations.get(f"{PREFIX}prune") != "false",
    )


def _lookup(query: Lookup | Selection, location: SourceLocation) -> PossibleLookup:
    selects = isinstance(query, Selection)
    return PossibleLookup(group_kind=query.group_kind, location=location, namespace=None, selects=selects)


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
            needed = _warned(
                needed_permissions(files, settings, served_in=lambda kind: requests.served_kind(kind, mapper))
            )
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
