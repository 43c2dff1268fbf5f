"""The folders of a project: those of CRDs and examples beside the templates, the template folder of an object, and its
CRD's defaults. Only files are read.

Promises:
- The CRD of the object's kind names the folder. Without a CRD, the folder has the plural that Kubernetes would use.
- An invalid CRD is an error with its file and line. A missing CRD is no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from ssa_operator.objects.built_in_kinds import CLUSTER_SCOPED, ApiKind
from ssa_operator.objects.identity import GroupKind, is_built_in, join_api_version, split_api_version
from ssa_operator.objects.kinds import ServedKind
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import field_text
from ssa_operator.operator import crd_files
from ssa_operator.operator.permissions.template_needs import ParentKind
from ssa_operator.operator.process.option_values import check_crd_folders
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.contained_files import RefusedFileError, project_of, real_path
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources
from ssa_operator.schema.crd_schema import has_status, object_schema, version_priority, wrong_parts
from ssa_operator.schema.new_object import NewObject, defaulted, new_object, prune

_CLUSTER_SCOPED = frozenset(GroupKind.of(*kind) for kind in CLUSTER_SCOPED)

_CRD = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")

# Built-in kinds with another plural than `possible_plurals` gives first.
_PLURALS = {GroupKind("", "Endpoints"): "endpoints"}


class CheckedPaths(NamedTuple):
    """What `check PATH` checks."""

    templates: Sequence[Path]
    only: Sequence[Path]
    """The files and folders whose findings are shown; [] for those of whole projects."""


def examples_of(given: Sequence[Path] | None, templates: Sequence[Path]) -> list[Path]:
    """The files and folders that `--examples` gives, or the folders `examples` beside the templates that exist."""
    if given is not None:
        return list(given)
    return [path for folder in templates if (path := _beside(folder, "examples")).is_dir()]


def crds_of(templates: Sequence[Path], named: Sequence[Path] | None) -> list[Path]:
    """The folders of CRDs that --crds names; without any, the default ones of some template folders, which need not
    exist; and the `_schema.yaml` of the template folders. Raises CommandError if a named one does not exist.
    """
    check_crd_folders(named or ())
    folders = named or dict.fromkeys(_beside(folder, "crds") for folder in templates)
    return [*folders, *crd_files.schema_files(templates)]


def checked_paths(paths: Sequence[Path], templates: Sequence[Path]) -> CheckedPaths:
    """The templates folders of some paths; `templates` are those of `--templates`.

    A path is a project, a templates folder, or anything in one of them. Raises CommandError for another path.
    """
    roots: list[Path] = []
    only: list[Path] = []
    for path in paths:
        if not path.exists():
            raise CommandError(
                f"there is no file or folder {path}; name a project, a template folder or a file", code=2
            )
        root = _templates_of(path, templates)
        roots.append(root)
        if path.resolve() not in (root.resolve(), root.resolve().parent):
            only.append(path)
    return CheckedPaths(templates=list(dict.fromkeys(roots)), only=only if len(only) == len(paths) else [])


def _templates_of(path: Path, templates: Sequence[Path]) -> Path:
    """The templates folder that a path is, contains, or is in or beside. Raises CommandError."""
    above = (
        [path, *path.parents] if path.is_absolute() or path == Path() else [path, *path.parents, *Path.cwd().parents]
    )
    for folder in above:
        known = next((each for each in templates if each.resolve() == folder.resolve()), None)
        if known is not None or folder.resolve().name == "templates":
            return known or folder
        if (folder / "templates").is_dir():
            return folder / "templates"
    if path.is_dir():
        return path if not list(path.glob("*.j2")) else path.parent
    raise CommandError(f"{path} is in no folder of templates; name their folder with --templates", code=2)


def _beside(templates: Path, name: str) -> Path:
    """A folder beside the templates folder. Raises CommandError if it is a link out of the project."""
    path = templates.parent / name
    if path.is_symlink():
        try:
            real_path(path, project_of(path.parent))
        except RefusedFileError as error:
            raise CommandError(f"{path} can't be read: {error.strerror}, or name it with --{name}", code=2) from error
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class CRDKind:
    """The kind that a CRD file defines."""

    folder: str
    """The name of its template folder."""

    namespaced: bool

    definition: Mapping[str, Any] = field(repr=False, compare=False)
    """The CRD."""


def read_crd_kinds(folders: Iterable[Path]) -> Mapping[GroupKind, CRDKind]:
    """The kinds of the CRDs in the folders. A folder need not exist. Raises CommandError."""
    return crd_kinds(read_crds(folders))


def read_crds(folders: Iterable[Path]) -> list[Document]:
    """The CRDs in the folders. A folder need not exist. Raises CommandError."""
    try:
        return crd_files.load_crds(*(folder for folder in folders if folder.exists()))
    except crd_files.DefinitionError as error:
        raise CommandError(str(error)) from error


def crd_kinds(definitions: Iterable[Document]) -> Mapping[GroupKind, CRDKind]:
    """The kinds of CRDs. Raises CommandError."""
    from ssa_operator.tools.schema_rules import refuse_invalid_values

    found = list(definitions)
    refuse_invalid_values(found)
    kinds = dict(map(_kind_of, found))
    for definition in found:
        _refuse_invalid_schemas(definition)
    return kinds


def readable_crd_kinds(definitions: Iterable[Document]) -> tuple[Mapping[GroupKind, CRDKind], Mapping[str, str]]:
    """The kinds of the CRDs whose values have the right types, and by name why other CRDs can't be read."""
    kinds, wrong = dict[GroupKind, CRDKind](), dict[str, str]()
    for definition in definitions:
        try:
            kinds |= crd_kinds([definition])
        except CommandError as error:
            wrong[definition.body["metadata"]["name"]] = str(error)
    return kinds, wrong


def _refuse_invalid_schemas(definition: Document) -> None:
    """Raise CommandError for a part of a schema that no schema has. The bundled schema of CRDs ends at some depth."""
    for at, version in enumerate(definition.body["spec"].get("versions", ())):
        root = ("spec", "versions", at, "schema", "openAPIV3Schema")
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        for path, words in wrong_parts(schema, root) if schema is not None else ():
            raise CommandError(f"{definition.location_of(path)}: {field_text(path)} must be {words}")


def _kind_of(definition: Document) -> tuple[GroupKind, CRDKind]:
    try:
        spec = definition.body["spec"]
        group, names = spec["group"], spec["names"]
        for version in spec.get("versions", ()):
            version["name"]  # every reader of a version relies on its name
        known = CRDKind(
            folder=f"{names['plural']}.{group}",
            namespaced=spec.get("scope") == "Namespaced",
            definition=definition.body,
        )
        return GroupKind(group, names["kind"]), known
    except (KeyError, TypeError) as error:
        raise CommandError(
            f"{definition.location}: a CRD needs spec.group, spec.names.kind and spec.names.plural, and each version"
            " a name"
        ) from error


def cluster_scoped(kinds: Mapping[GroupKind, CRDKind]) -> frozenset[GroupKind]:
    """The cluster-scoped kinds: built-in ones, and those of the CRDs. Every other kind counts as namespaced."""
    return _CLUSTER_SCOPED - kinds.keys() | {kind for kind, known in kinds.items() if not known.namespaced}


def custom_kinds(kinds: Mapping[GroupKind, CRDKind]) -> frozenset[ApiKind]:
    """The kinds that the CRDs define, in every version that they serve."""
    return frozenset(
        ApiKind(join_api_version(kind.group, version["name"]), kind.kind)
        for kind, known in kinds.items()
        for version in known.definition["spec"].get("versions", ())
        if version.get("served")
    )


def served_kind(kind: GroupKind, kinds: Mapping[GroupKind, CRDKind]) -> ServedKind:
    """How a cluster with these CRDs serves a kind. Without a CRD, the plural is the one that Kubernetes would use."""
    if kind in kinds:
        return ServedKind(kinds[kind].folder.removesuffix(f".{kind.group}"), kinds[kind].namespaced)
    return ServedKind(_PLURALS.get(kind) or possible_plurals(kind.kind)[0], kind not in _CLUSTER_SCOPED)


def parent_kind(folder: Folder, kinds: Mapping[GroupKind, CRDKind]) -> ParentKind:
    """The parents of a folder, in a cluster with these CRDs. The operator writes no status of built-in kinds."""
    known = next((each for each in kinds.values() if each.folder == folder.name), None)
    if known is None:
        built_in = is_built_in(folder.group)
        cluster_scoped = {(each.group, possible_plurals(each.kind)[0]) for each in _CLUSTER_SCOPED}
        namespaced, writes_status = (folder.group, folder.resource) not in cluster_scoped, not built_in
    else:
        namespaced = known.namespaced
        writes_status = has_status(known.definition, read_version(folder, known.definition))
    return ParentKind(
        folder=folder.name,
        group=folder.group,
        resource=folder.resource,
        namespaced=namespaced,
        writes_status=writes_status,
        cluster_scope=folder.settings.cluster_scope,
    )


def read_version(folder: Folder, definition: Mapping[str, Any]) -> str:
    """The version of the parents that the operator reads; '' if the CRD serves none."""
    versions = definition["spec"].get("versions", ())
    served = [each["name"] for each in versions if each.get("served")]
    return folder.settings.version or max(served, key=version_priority, default="")


def as_served(parent: Mapping[str, Any], folder: Folder, kinds: Mapping[GroupKind, CRDKind]) -> NewObject:
    """A new parent as the API server returns it to the operator: pruned, with the defaults of its CRD, in the version
    that the operator reads; and why the API server refuses it, if it does. Without a CRD, as for built-in kinds, it is
    unchanged.

    Raises CommandError if the CRD doesn't serve the version of the parent or of the folder.
    """
    group, version = split_api_version(parent["apiVersion"])
    known = kinds.get(GroupKind(group, parent["kind"]))
    if known is None:
        return NewObject(body=dict(parent))
    versions = known.definition["spec"].get("versions", ())
    served = [each["name"] for each in versions if each.get("served")]
    for wanted in (version, folder.settings.version or version):
        if wanted not in served:
            which, names = f"its CRD {known.folder} doesn't serve version {wanted}", ", ".join(served) or "none"
            raise CommandError(f"{parent['kind']} {parent['metadata']['name']}: {which}; served are {names}")
    created = new_object(parent, known.definition, version)
    if (known.definition["spec"].get("conversion") or {}).get("strategy", "None") != "None":
        return _converted(created, folder, known.definition)
    # The API server prunes and sets defaults by the version of the request, that of etcd, and that of the answer.
    stored = next((each["name"] for each in versions if each.get("storage")), version)
    read = read_version(folder, known.definition)
    stored_schema = object_schema(known.definition, stored)
    stored_body, lost = prune(created.body, stored_schema)
    body, lost_again = prune(defaulted(stored_body, stored_schema), object_schema(known.definition, read))
    pruned = tuple(dict.fromkeys((*created.pruned, *lost, *lost_again)))
    return replace(created, body=body | {"apiVersion": join_api_version(group, read)}, pruned=pruned)


def _converted(created: NewObject, folder: Folder, definition: Mapping[str, Any]) -> NewObject:
    """A new parent in the version that the operator reads, by the templates of its folder. Without such templates only
    the CRD's own webhook can convert it. Raises CommandError.
    """
    from ssa_operator.objects.render_result import ConversionError
    from ssa_operator.operator.conversion.folder_converters import converter

    if created.errors or folder.templates is None or not folder.templates.conversions:
        return created
    try:
        body = converter(folder.templates, definition).convert(created.body, read_version(folder, definition))
    except ConversionError as error:
        raise CommandError(f"{created.body['kind']} {created.body['metadata'].get('name', '')}: {error}") from error
    return replace(created, body=body)


def find_folder(parent: Mapping[str, Any], sources: Sources, kinds: Mapping[GroupKind, CRDKind]) -> Folder:
    """The template folder of a parent. Raises CommandError, which names the possible folders."""
    kind = GroupKind.of(parent["apiVersion"], parent["kind"])
    suffix = f".{kind.group}" if kind.group else ""
    names = [kinds[kind].folder] if kind in kinds else [f"{plural}{suffix}" for plural in possible_plurals(kind.kind)]
    for name in names:
        if name in sources.folders:
            return sources.folders[name]
    if kind == _CRD:
        raise CommandError(
            f"{parent['metadata']['name']} is a CRD, not one of its objects; write `ssa-operator crds apply` to install"
            " it, `ssa-operator check` to check it, and the file of an object to render"
        )
    raise CommandError(f"no templates for {kind} {parent['metadata']['name']}: there is no folder {' or '.join(names)}")


def possible_plurals(kind: str) -> list[str]:
    """The names that the resource of a kind may have in Kubernetes: `Ingress` -> `ingresses`, `ingress`."""
    name = kind.lower()
    if name.endswith(("s", "x", "z", "ch", "sh")):
        return [f"{name}es", name]
    if name.endswith("o"):
        return [f"{name}s", f"{name}es"]
    if name.endswith("y") and name[-2:-1] not in "aeiou":
        return [f"{name[:-1]}ies"]
    return [f"{name}s"]
