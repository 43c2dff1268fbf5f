"""Rules about the texts of a templates folder: what the operator doesn't read, or reads otherwise than it is meant.

Promises:
- Every file that Jinja can read is checked, whether an example renders it or not. A file that is neither rendered nor
  read is found, with the name to give it; where a name is computed, or a file doesn't load, each file may be included.
- An expression in a plain `.yaml` file is found where it is certainly meant: the file is no YAML, or it reads `spec`.
- A folder, or an example, of a kind that no CRD defines is found where its name is near to one of a CRD.
- A password, or a scalar that kubectl reads otherwise, is a finding only where the line of the template has it, without
  quotes. No finding shows a password.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import nodes

from ssa_operator.objects.identity import GroupKind, is_built_in
from ssa_operator.objects.json_schema import fields, part_schema
from ssa_operator.objects.manifest import POD_SPECS, group_kind
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation, leaves, value_at
from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS
from ssa_operator.rendering.folder.folder_snapshot import SUFFIXES
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.jinja.folder_files import FILES
from ssa_operator.rendering.jinja.templates import CONVERT, MANIFESTS, SHARED, STATUS, VALUES, is_manifest
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.rendering.yaml.documents import SAME, kubectl_scalar
from ssa_operator.schema.crd_schema import object_schema
from ssa_operator.schema.field_errors import mapping_items
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.checks.child_rules import check_child_fields
from ssa_operator.tools.checks.field_rules import FolderFields, check_fields
from ssa_operator.tools.checks.name_rules import UNKNOWN_NAME
from ssa_operator.tools.findings import Code, Finding, field_finding
from ssa_operator.tools.offline.project import CRDKind, possible_plurals, read_version
from ssa_operator.tools.schema_rules import UNKNOWN_KIND

_Kinds: TypeAlias = Mapping[GroupKind, CRDKind]
_Trees: TypeAlias = Mapping[Path, Mapping[str, nodes.Template]]
"""The syntax trees of the files of each templates folder."""


def check_texts(
    folders: Sequence[Folder], trees: _Trees, kinds: _Kinds, schemas: KubernetesSchemas
) -> Iterator[Finding]:
    """The findings about the fields of parents and of other objects that templates read. `schemas` are those of
    Kubernetes and of the CRDs.
    """
    yield from check_template_fields(folders, kinds)
    for folder in folders:
        own = (f"{folder.name}/", f"{SHARED}/")
        read = {name: tree for name, tree in trees[folder.root].items() if name.startswith(own)}
        yield from check_child_fields(read, schemas, rendered_kinds(folder) or ())


def rendered_kinds(folder: Folder) -> list[str] | None:
    """The kinds that a folder can render, None if that is unknown."""
    contents = template_contents(folder)
    return None if contents.unknown or folder.problems else [each.kind for each in contents.kinds]


def check_template_fields(folders: Sequence[Folder], kinds: _Kinds) -> list[Finding]:
    """The findings about the fields of parents that templates read, by the schemas of the CRDs."""
    read = []
    for kind in kinds.values():
        folder = next((each for each in folders if each.name == kind.folder), None)
        if folder is None:
            continue
        schema = object_schema(kind.definition, read_version(folder, kind.definition))
        if schema is not None:
            read.append(FolderFields(folder=folder.name, schema=schema, fields=template_contents(folder).fields))
    return check_fields(read)


def with_field(finding: Finding, folders: Sequence[Folder], kinds: _Kinds) -> Finding:
    """The finding about a variable that doesn't exist, with the field of `spec` of that name."""
    if finding.code != UNKNOWN_NAME or not finding.about or finding.location is None:
        return finding
    within = finding.location.file.partition("/")[0]
    folder = next((each for each in folders if each.name == within), None)
    for kind in kinds.values():
        if folder is not None and kind.folder == folder.name:
            schema = object_schema(kind.definition, read_version(folder, kind.definition))
            if finding.about in fields(part_schema(schema, "spec")):
                return replace(finding, fix=f"did you mean spec.{finding.about}?")
    return finding


def misnamed_example(example: Document, kinds: _Kinds) -> Finding | None:
    """The finding about an example of a kind that no CRD of its group defines, if one has a similar name."""
    kind = group_kind(example)
    elsewhere = [each.group for each in kinds if each.kind == kind.kind]
    api_version = str(example.body["apiVersion"])
    if elsewhere and kind not in kinds and (not is_built_in(kind.group) or "." in api_version):
        return Finding(
            code=UNKNOWN_KIND,
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
        code=UNKNOWN_KIND, message=message, location=example.location_of(("kind",)), fix=f"did you mean {near[0]}?"
    )


def _version(kinds: _Kinds, kind: GroupKind) -> str:
    """The version of a kind that its CRD stores."""
    versions = kinds[kind].definition["spec"].get("versions", ())
    return next((str(each["name"]) for each in versions if each.get("storage")), "v1")


def may_apply_elsewhere(folder: Folder, kinds: Iterable[CRDKind]) -> bool:
    """Whether children may be in other namespaces than the parent, or the parent has none."""
    return folder.settings.cluster_scope or any(not kind.namespaced for kind in kinds if kind.folder == folder.name)


_TEMPLATE_ENDINGS = frozenset({"gotmpl", "j2", "jinja", "jinja2", "json", "tmpl", "tpl", "yaml", "yml"})
_EXPRESSION = re.compile(r"\{\{|\{%")
_SURE = re.compile(r"\{\{-?\s*spec\.")
_DOCUMENTATION = re.compile(r"[^.]*|README.*|LICENSE.*|.*\.(?:md|rst)")
_LIMIT = 10_000
"""The most files that are looked at."""


def check_files(
    root: Path, files: Mapping[str, str], folders: Iterable[Folder], broken: Iterable[str]
) -> list[Finding]:
    """The findings in one templates folder. `files` are those that the operator reads, `folders` the folders with
    templates, `broken` the files that don't load.
    """
    unused = (each for folder in folders if folder.root == root for each in _unused_files(folder))
    return [*_ignored_files(root), *_plain_files(files, frozenset(broken)), *unused]


IGNORED_FILE = Code.warning(
    "ignored-file",
    "a file that the operator doesn't use",
    "In a template folder, the operator renders the files that end in .yaml.j2, .yml.j2 and .json.j2, applies "
    "those that end in .yaml, .yml and .json, and reads those that another file includes. Rename the file, or "
    "move it to files/ if templates read it as text. A conversion in _convert/ is used between the stored "
    "version and another one with other fields. Remove the file, or correct the versions in its name.",
    replaces="conversion-unused",
)


def _ignored_files(root: Path) -> Iterator[Finding]:
    seen = 0
    for folder, folders, names in os.walk(root):
        below = Path(folder).relative_to(root)
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each != FILES)
        for name in sorted(names):
            seen += 1
            if seen > _LIMIT:
                return
            if name.startswith((".", "#")) or name.endswith((*SUFFIXES, "~")) or not below.parts:
                continue
            is_template = name.rpartition(".")[2].lower() in _TEMPLATE_ENDINGS
            if is_template or not _DOCUMENTATION.fullmatch(name):
                message = f"{name} is not read: the operator reads .yaml.j2, .j2, .yaml, .yml and .json"
                fix = f"rename it to {_read_name(name)}" if is_template else "move it to files/, or remove it"
                location = SourceLocation(str(below / name), 1)
                yield Finding(code=IGNORED_FILE, message=message, location=location, fix=fix)


def _read_name(name: str) -> str:
    """The name of a file under which the operator reads it."""
    parts = name.split(".")
    stem = next((at for at, part in enumerate(parts) if at and part.lower() in _TEMPLATE_ENDINGS), len(parts))
    base = ".".join(parts[:stem])
    return f"{base}.j2" if base.startswith("_") and "y" not in "".join(parts[stem:-1]) else f"{base}.yaml.j2"


PLAIN_FILE = Code.error(
    "plain-file",
    "an expression in a file that is not rendered",
    "A file that ends in .yaml or .yml is a manifest as it stands, so that braces of other programs stay. "
    "Rename it to .yaml.j2 to have Jinja render it.",
)


def _plain_files(files: Mapping[str, str], broken: frozenset[str]) -> Iterator[Finding]:
    for file, text in files.items():
        name = file.rpartition("/")[2]
        if not name.endswith(MANIFESTS) or name.startswith("_"):
            continue
        pattern = _EXPRESSION if file in broken else _SURE
        line = next((at for at, each in enumerate(text.split("\n"), 1) if pattern.search(each)), 0)
        language = "JSON" if name.endswith(".json") else "YAML"
        if line:
            yield Finding(
                code=PLAIN_FILE,
                message=f"{name} is plain {language}, in which no {{{{ ... }}}} or {{% ... %}} is rendered",
                location=SourceLocation(file, line),
                fix=f"rename it to {re.sub('[.]yml$', '.yaml', name)}.j2",
            )


def _unused_files(folder: Folder) -> Iterator[Finding]:
    """The files that are neither rendered nor read by their name, and that no other file includes."""
    included = folder.templates.included if folder.templates is not None else None
    if included is None:
        return
    own = (SCHEMA, SETTINGS, STATUS, VALUES)
    named = (*(f"{each.partition('.')[0]}." for each in own), f"{CONVERT}/")
    for inner in folder.files:
        file, name = f"{folder.name}/{inner}", inner.rpartition("/")[2]
        if inner.startswith(named) or is_manifest(folder.name, file) or file in included:
            continue
        near = [each for each in near_names(name, own, likeness=0.8) if each not in folder.files]
        better = near[0] if near else _read_name(name.lstrip("_"))
        fix = f"rename it to {better}" if better != name else "include it, or move it out of its folder"
        message = f"{name} is neither rendered nor read: no file includes it"
        yield Finding(code=IGNORED_FILE, message=message, location=SourceLocation(file, 1), fix=fix)


def check_folder_names(folders: Mapping[str, Iterable[str]], known: Sequence[str]) -> list[Finding]:
    """The findings about folders, with their files, of which no CRD is known. `known` are the folders of CRDs."""
    found = []
    for name in sorted(set(folders) - set(known)):
        plural, _, group = name.partition(".")
        plurals = {plural, plural.lower(), *possible_plurals(plural)}
        same = [each for each in known if each.partition(".")[0] in plurals and not group]
        near = same or (near_names(name.lower(), known) if group else [])
        if near:
            message = f"no CRD defines {name}, so the operator never reads templates/{name}"
            fix = f"rename the folder to {near[0]}"
            location = next((SourceLocation(f"{name}/{file}", 1) for file in sorted(folders[name])), None)
            found.append(Finding(code=UNKNOWN_KIND, message=message, location=location, fix=fix, about=name))
    return found


_NAME = re.compile(
    r"(?:^|[-_.])(?:passw(?:or)?d|passphrase|secret[-_]?key|api[-_]?key|private[-_]?key)$", re.IGNORECASE
)


PLAIN_PASSWORD = Code.warning(
    "plain-password",
    "a password in the text of a template",
    "Anyone who can read the templates, or their repository, reads it, and each parent has the same one. Draw "
    "a password with generated(), or read a Secret that is created elsewhere.",
)


def check_passwords(documents: Iterable[Document], files: Mapping[str, str]) -> list[Finding]:
    """The findings in the manifests of a parent. `files` are the texts of templates, by what locations call them."""
    return [
        field_finding(document, PLAIN_PASSWORD, path, "has a password in the text of the template", fix)
        for document in documents
        for path, name, value, fix in _secrets(document)
        if isinstance(name, str) and _NAME.search(name) and _is_written(document, path, value, files)
    ]


def _secrets(document: Document) -> Iterator[tuple[FieldPath, Any, Any, str]]:
    """The values that may be passwords: path, name, value, and what to do."""
    kind = document.identity.group_kind
    if kind == GroupKind("", "Secret"):
        for part in ("stringData", "data"):
            found = value_at(document.body, (part,))
            for name, value in found.items() if isinstance(found, Mapping) else ():
                fix = f"write {{{{ generated('{name}') }}}}, or read a Secret that is created elsewhere"
                yield (part, name), name, value, fix
    elif kind in POD_SPECS:
        pod = POD_SPECS[kind]
        for key in ("initContainers", "containers"):
            for at, container in mapping_items(value_at(document.body, (*pod, key)), (*pod, key)):
                for place, variable in mapping_items(container.get("env"), (*at, "env")):
                    fix = "read it from a Secret: valueFrom: {secretKeyRef: {name: ..., key: ...}}"
                    yield (*place, "value"), variable.get("name"), variable.get("value"), fix


def _is_written(document: Document, path: FieldPath, value: Any, files: Mapping[str, str]) -> bool:
    """Whether the line of a field has its value as text."""
    line = _line(document.location_of(path), files)
    is_text = isinstance(value, str) and value.strip() and "$(" not in value
    return bool(is_text and value in line and not re.search(r"\{[{%]", line))


AMBIGUOUS_SCALAR = Code.warning(
    "ambiguous-scalar",
    "a plain scalar that kubectl reads otherwise",
    "Templates are YAML 1.2, in which yes, on, 0644, 0b101 and 1_000 are texts. kubectl and Helm read YAML "
    "1.1, in which they are booleans and numbers; so does the operator in static manifests, CRDs and parents. "
    "Write the value itself, or quote the text.",
)


def check_scalars(documents: Iterable[Document], files: Mapping[str, str]) -> Iterator[Finding]:
    """The findings in the manifests of a parent. `files` are the texts of templates, by what locations call them."""
    for document in documents:
        for path, text in leaves(document.body):
            value = kubectl_scalar(text) if isinstance(text, str) else SAME
            if value is not SAME and _is_plain(document, path, text, files):
                shown = str(value).lower()
                message = f"is the text {text}, where kubectl and Helm read {shown}"
                yield field_finding(document, AMBIGUOUS_SCALAR, path, message, f'write "{text}" or {shown}')


def _is_plain(document: Document, path: FieldPath, text: str, files: Mapping[str, str]) -> bool:
    """Whether the template's line of a field has the text as a plain scalar. Static files are read as kubectl does."""
    location = document.location_of(path)
    if not location.file.endswith(".j2"):
        return False
    return (
        re.search(rf"(?:[:\-?]\s+|[\[,]\s*){re.escape(text)}\s*(?:[,\]}}]|\s#|$)", _line(location, files)) is not None
    )


def _line(location: SourceLocation, files: Mapping[str, str]) -> str:
    lines = files.get(location.file, "").split("\n")
    return lines[location.line - 1] if location.line <= len(lines) else ""
