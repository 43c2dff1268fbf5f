"""Checks the texts of folders by the schemas of their CRDs and of Kubernetes, for `ssa-operator check`.

Promises:
- Every file that Jinja can read is checked, whether an example renders it or not.
- A variable that is a field of `spec` has that as its fix.
- An example of a kind that no CRD of its group defines is found where its name is near to one of a CRD.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from weakref import WeakKeyDictionary

from jinja2 import TemplateSyntaxError, nodes

from ssa_operator.objects.identity import GroupKind, is_built_in
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.render_result import Document
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.checks.child_rules import check_child_fields
from ssa_operator.tools.checks.field_rules import FolderFields, check_fields
from ssa_operator.tools.findings.findings import Finding
from ssa_operator.tools.offline.project import CRDKind, read_version

_Kinds: TypeAlias = Mapping[GroupKind, CRDKind]
_Trees: TypeAlias = Mapping[str, Mapping[str, nodes.Template]]
"""The syntax trees of the files of each folder."""


def check_texts(
    folders: Sequence[Folder], trees: _Trees, kinds: _Kinds, schemas: KubernetesSchemas
) -> Iterator[Finding]:
    """The findings about the fields of parents and of other objects that templates read. `schemas` are those of
    Kubernetes and of the CRDs.
    """
    yield from check_template_fields(folders, trees, kinds)
    for folder in folders:
        yield from check_child_fields(trees[folder.name], schemas, rendered_kinds(folder, trees[folder.name]) or ())


def rendered_kinds(folder: Folder, trees: Mapping[str, nodes.Template] | None = None) -> list[str] | None:
    """The kinds that a folder can render, None if that is unknown."""
    contents = template_contents(folder, trees=trees)
    return None if contents.unknown or folder.problems else [each.kind for each in contents.kinds]


def check_template_fields(folders: Sequence[Folder], trees: _Trees, kinds: _Kinds) -> list[Finding]:
    """The findings about the fields of parents that templates read, by the schemas of the CRDs."""
    read = []
    for kind in kinds.values():
        folder = next((each for each in folders if each.name == kind.folder), None)
        if folder is None:
            continue
        schema = object_schema(kind.definition, read_version(folder, kind.definition))
        if schema is not None:
            fields = template_contents(folder, trees=trees.get(folder.name)).fields
            read.append(FolderFields(folder=folder.name, schema=schema, fields=fields))
    return check_fields(read)


def with_field(finding: Finding, folders: Sequence[Folder], kinds: _Kinds) -> Finding:
    """The finding about a variable that doesn't exist, with the field of `spec` of that name."""
    if finding.code != "unknown-name" or not finding.about or finding.location is None:
        return finding
    within = finding.location.file.partition("/")[0]
    folder = next((each for each in folders if each.name == within), None)
    for kind in kinds.values():
        if folder is not None and kind.folder == folder.name:
            schema = object_schema(kind.definition, read_version(folder, kind.definition)) or {}
            spec = (schema.get("properties") or {}).get("spec") or {}
            if finding.about in (spec.get("properties") or {}):
                return replace(finding, fix=f"did you mean spec.{finding.about}?")
    return finding


def misnamed_example(example: Document, kinds: _Kinds) -> Finding | None:
    """The finding about an example of a kind that no CRD of its group defines, if one has a similar name."""
    kind = group_kind(example)
    elsewhere = [each.group for each in kinds if each.kind == kind.kind]
    api_version = str(example.body["apiVersion"])
    if elsewhere and kind not in kinds and (not is_built_in(kind.group) or "." in api_version):
        return Finding(
            code="unknown-kind",
            message=f"no CRD defines the kind {kind.kind} in {api_version}",
            location=example.location_of(("apiVersion",)),
            fix=f"write {elsewhere[0]}/{_version(kinds, GroupKind(elsewhere[0], kind.kind))}",
        )
    known = [each.kind for each in kinds if each.group == kind.group]
    near = [] if kind in kinds else near_names(kind.kind, known)
    if not near:
        return None
    message = f"no CRD of {kind.group} defines the kind {kind.kind}"
    return Finding(
        code="unknown-kind", message=message, location=example.location_of(("kind",)), fix=f"did you mean {near[0]}?"
    )


def _version(kinds: _Kinds, kind: GroupKind) -> str:
    """The version of a kind that its CRD stores."""
    versions = kinds[kind].definition["spec"].get("versions", ())
    return next((str(each["name"]) for each in versions if each.get("storage")), "v1")


def may_apply_elsewhere(folder: Folder, kinds: Iterable[CRDKind]) -> bool:
    """Whether children may be in other namespaces than the parent, or the parent has none."""
    return folder.settings.cluster_scope or any(not kind.namespaced for kind in kinds if kind.folder == folder.name)


_parsed: WeakKeyDictionary[Templates, dict[str, nodes.Template]] = WeakKeyDictionary()
"""The syntax trees of the templates that were checked, for the next check of an editor."""


def syntax_trees(templates: Templates) -> dict[str, nodes.Template]:
    """The syntax trees of the templates that Jinja can read."""
    if (known := _parsed.get(templates)) is not None:
        return known
    trees = _parsed[templates] = {}
    for name in templates.file_names:
        if name.endswith(".j2"):
            with contextlib.suppress(TemplateSyntaxError):  # a problem of the folder
                trees[name] = templates.syntax_tree(name)
    return trees
