"""Derives the permissions that an operator needs, from template folders, CRDs and example parents.

Promises:
- A folder that doesn't load, and a file that is not a manifest, are errors with file and line.
- A kind that only a render knows is covered as far as the examples render it, and is a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.objects.annotations import PREFIX, is_finalize_hook
from ssa_operator.objects.cluster_view import Lookup, OfflineClusterView, Selection
from ssa_operator.objects.identity import GroupKind, is_built_in
from ssa_operator.objects.kinds import ServedKind
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.objects.template_contents import (
    PARENT_NAMESPACE,
    PossibleLookup,
    PossibleManifest,
    TemplateContents,
)
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
from ssa_operator.operator.permissions.template_needs import folder_needs
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.operator.shards.rules import shard_lease_needs
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources, load_all
from ssa_operator.rendering.folder.object_files import FileError, load_objects
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.rendering.render import render, render_status
from ssa_operator.schema.crd_schema import field_options
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
