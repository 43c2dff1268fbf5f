"""Rules about CRDs: their schema, what their objects can show, how kubectl prints them, and what changed in them.

Promises:
- What the API server refuses is a finding, by the rules of `schema/crd_validation.py`, and so is a required field that
  the schema doesn't declare: it is pruned, so that no object is ever valid.
- A rule about what users see looks at served versions only. Each finding has a line of the CRD's file.
- For `check --against`, the earlier state is a folder or file, or a revision of git, of which only the CRDs are read. A
  CRD that is missing now is a finding.
- A revision that git doesn't know, and an earlier CRD that can't be read, is an error and not an empty state.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

from ssa_operator.objects.json_schema import PRESERVED, Schema, all_schemas, fields, schema_at
from ssa_operator.objects.messages import near_names
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text
from ssa_operator.operator.crd_files import schema_files
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS
from ssa_operator.rendering.folder.loaded_folders import Sources
from ssa_operator.rendering.folder.object_files import SUFFIXES
from ssa_operator.rendering.jinja.templates import CONVERT
from ssa_operator.schema.crd_changes import crd_changes
from ssa_operator.schema.crd_schema import declared, has_status, replicas_path, status_schema, unreported
from ssa_operator.schema.crd_validation import validate_crd
from ssa_operator.schema.kubernetes_schemas import KubernetesSchemas
from ssa_operator.tools.findings import Code, Finding, short_words
from ssa_operator.tools.offline.project import read_crds
from ssa_operator.tools.schema_rules import UNKNOWN_FIELD, UNKNOWN_KIND, check_schemas


def check_crds(definitions: Sequence[Document], schemas: KubernetesSchemas | None = None) -> list[Finding]:
    """The findings in CRDs, with those about fields that the `schemas` of Kubernetes don't have."""
    unknown = {} if schemas is None else unknown_fields(definitions, schemas)
    # What else is wrong may follow from a field that has another name.
    clear = [each for each in definitions if each.body["metadata"]["name"] not in unknown]
    refused = [finding for definition in clear for finding in _refusals(definition)]
    return [*(each for found in unknown.values() for each in found), *refused] + [
        finding
        for definition in clear
        for position, version in enumerate(definition.body["spec"].get("versions", ()))
        if version.get("served")
        for rule in _RULES
        for finding in rule(definition, ("spec", "versions", position), version)
    ]


def unknown_fields(definitions: Sequence[Document], schemas: KubernetesSchemas) -> dict[str, list[Finding]]:
    """The findings about fields that CRDs don't have, by the names of the CRDs that have such fields: the API server
    refuses them, or drops those below `items`.
    """
    found: dict[str, list[Finding]] = {}
    for each in definitions:
        for finding in check_schemas([each], schemas):
            if finding.code in (UNKNOWN_FIELD, UNKNOWN_KIND):
                name = each.body["metadata"]["name"]
                found.setdefault(name, []).append(replace(finding, subject=_name(each)))
    return found


CRD_REFUSED = Code.error(
    "crd-refused",
    "a CRD that can't be read, or that the API server refuses with all its objects",
    "It is no YAML or no CRD, its name is not <plural>.<group>, a type doesn't exist, a field of a served "
    "version has no type, a default doesn't fit its own field, or the like. The message has the API server's "
    "words. Or the CRD requires a field that it doesn't declare: the API server prunes the field, and refuses "
    "every object. Until the CRD is corrected, check does not look at its objects.",
    replaces="crd-undeclared-required crd-not-structural",
)


def _refusals(definition: Document) -> Iterator[Finding]:
    errors = validate_crd(definition.body)
    # The name follows from those that are wrong.
    named = any(error.path[:2] in (("spec", "group"), ("spec", "names")) for error in errors)
    for error in errors:
        if not (named and error.path == ("metadata", "name")):
            message = f"{_name(definition)}: {_place(error.path)}: {short_words(error.message)}"
            yield Finding(code=CRD_REFUSED, message=message, location=definition.location_of(error.path))


def _place(path: FieldPath) -> str:
    """A field of a CRD in short: `default of spec.replicas` for one of a schema."""
    if "openAPIV3Schema" not in path:
        return field_text(path)
    described, keyword = [], ""
    parts = iter(path[path.index("openAPIV3Schema") + 1 :])
    for part in parts:
        if part == "properties":
            described.append(str(next(parts)))
        elif part in ("items", "additionalProperties"):
            described.append("*")
        else:
            keyword = str(part)
            break
    if not keyword and path[-1] in ("items", "additionalProperties"):  # of a list that has none
        keyword = str(path[-1])
        del described[-1]
    field = ".".join(described) or "the object"
    return f"{keyword} of {field}" if keyword else field


def accepts_no_object(definition: Mapping[str, Any]) -> bool:
    """Whether the API server refuses a CRD, or every object of it."""
    schemas = [
        (version.get("schema") or {}).get("openAPIV3Schema")
        for version in definition["spec"].get("versions", ())
        if version.get("served")
    ]
    wrong = (each is None or any(_untyped(each)) or any(_never_set(each, ())) for each in schemas)
    return any(wrong) or bool(validate_crd(definition))


def _not_structural(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        message = f"{_name(definition)} has no schema for {version['name']}"
        yield Finding(code=CRD_REFUSED, message=message, location=definition.location_of(path))
        return
    root: FieldPath = (*path, "schema", "openAPIV3Schema")
    for field, at in _untyped(schema):
        message = f"{_name(definition)}: {field_text(field) or 'the object'} has no type in {version['name']}"
        yield Finding(code=CRD_REFUSED, message=message, location=definition.location_of((*root, *at)))


def _untyped(schema: Schema) -> Iterator[tuple[FieldPath, FieldPath]]:
    """The fields without a type, each with the place of its schema.

    The rules are those of a structural schema:
    https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
    """
    for at, field, each in all_schemas(schema):
        if not any(each.get(name) for name in ("type", "$ref", "x-kubernetes-int-or-string", PRESERVED)):
            yield field, at


CRD_WITHOUT_REPORT = Code.warning(
    "crd-without-report",
    "a CRD whose objects don't show how they are",
    "The CRD has no status subresource, or doesn't declare status.conditions or status.resources. The "
    "operator works, but a user sees errors only as Events. Declare them as ssa-operator new does, the "
    "conditions with x-kubernetes-list-type: map and the key type: else the writers of two conditions replace "
    "each other's whole list. With the setting rollout, the revision of each parent needs status.revision, "
    "too; shards can't roll out without it. Without additionalPrinterColumns, kubectl get shows only name and "
    'age: add them, at least for the status of the condition Ready: .status.conditions[?(@.type=="Ready")]'
    ".status",
    replaces="crd-condition-list-type crd-without-printer-columns",
)


def _without_report(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    sentence = unreported(definition.body, version["name"])
    if sentence:
        yield Finding(code=CRD_WITHOUT_REPORT, message=sentence, location=definition.location_of(path))


def _condition_list_type(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    status = status_schema(definition.body, version["name"]) or {}
    conditions = schema_at(status, ("conditions",))
    if conditions is None or conditions.get(PRESERVED):
        return
    if conditions.get("x-kubernetes-list-type") == "map" and conditions.get("x-kubernetes-list-map-keys") == ["type"]:
        return
    at = (*path, "schema", "openAPIV3Schema", "properties", "status", "properties", "conditions")
    yield Finding(
        code=CRD_WITHOUT_REPORT,
        message=f"{_name(definition)}: status.conditions is no list map in {version['name']}",
        location=definition.location_of(at),
        fix="add x-kubernetes-list-type: map and x-kubernetes-list-map-keys: [type]",
    )


def _undeclared_required(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    for at, field, siblings in _never_set(schema, (*path, "schema", "openAPIV3Schema")):
        near = near_names(str(field[-1]), siblings)
        yield Finding(
            code=CRD_REFUSED,
            message=f"{_name(definition)} requires {field_text(field)} in {version['name']}, and doesn't declare it",
            location=definition.location_of(at),
            fix=f"did you mean {near[0]}?" if near else "declare it in properties",
        )


def _never_set(schema: Schema, root: FieldPath) -> Iterator[tuple[FieldPath, FieldPath, Sequence[str]]]:
    """The required fields that are pruned: the place in the CRD, the field, and those that are declared beside it."""
    for at, field, each in all_schemas(schema, root):
        # The API server looks at the required fields of objects only. Those of the object itself are there, and those
        # of embedded resources, too.
        is_open = any(each.get(name) for name in ("additionalProperties", PRESERVED, "x-kubernetes-embedded-resource"))
        for position, name in enumerate(each.get("required") or ()):
            if each.get("type") == "object" and not is_open and field and name not in fields(each):
                yield (*at, "required", position), (*field, name), list(fields(each))


def _without_printer_columns(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    if not version.get("additionalPrinterColumns"):
        message = f"{_name(definition)} has no additionalPrinterColumns in {version['name']}"
        yield Finding(code=CRD_WITHOUT_REPORT, message=message, location=definition.location_of(path))


CRD_ATOMIC_REPLICAS = Code.warning(
    "crd-atomic-replicas",
    "a number of replicas that no autoscaler can own",
    "The subresource scale writes a field inside of a mapping with x-kubernetes-map-type: atomic. Such a "
    "mapping has one owner: an apply of a template that writes the mapping replaces the whole of it, and "
    "with it the number that an autoscaler or kubectl scale has set. Remove the setting from the CRD. If it "
    "belongs to others, keep the number that is there in the template, for example "
    'count: {{ live("Fleet", name).spec.workers.count | default(2) }}',
)


def _atomic_replicas(definition: Document, path: FieldPath, version: Mapping[str, Any]) -> Iterable[Finding]:
    replicas = replicas_path(version)
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    at: FieldPath = (*path, "schema", "openAPIV3Schema")
    for end, part in enumerate(replicas or ()):
        if not isinstance(schema, Mapping):
            return
        if schema.get("x-kubernetes-map-type") == "atomic":
            mapping, number = field_text((replicas or ())[:end]), field_text(replicas or ())
            yield Finding(
                code=CRD_ATOMIC_REPLICAS,
                message=f"{_name(definition)}: {mapping} is atomic in {version['name']}; "
                f"no other manager can own {number}",
                location=definition.location_of((*at, "x-kubernetes-map-type")),
                fix="remove x-kubernetes-map-type: atomic",
            )
            return
        schema = fields(schema).get(part)
        at = (*at, "properties", part)


_RULES: tuple[Callable[[Document, FieldPath, Mapping[str, Any]], Iterable[Finding]], ...] = (
    _not_structural,
    _undeclared_required,
    _without_report,
    _condition_list_type,
    _without_printer_columns,
    _atomic_replicas,
)


def _name(definition: Document) -> str:
    return f"CRD {definition.body['metadata']['name']}"


CRD_REMOVED = Code.error(
    "crd-removed",
    "a part of a CRD that is gone",
    "With the CRD, or under another scope or kind, its objects are gone. Without a version that is served or "
    "stored, clients fail and stored objects may be unreadable: remove it only when status.storedVersions of "
    "the CRD in the cluster lacks it. The API server prunes a field that is gone with the next write: keep "
    "it, and call it deprecated in its description. Without the status subresource, the operator's writes of "
    "the status fail. check --against compares with an earlier state.",
    replaces="crd-names-changed crd-version-removed crd-field-removed crd-status-removed",
)

CRD_NARROWED = Code.error(
    "crd-narrowed",
    "a field that permits less",
    "Values that were valid are refused: the type is another one, or the field is required, or an enum, a "
    "bound, a pattern or nullable was narrowed. Keep what was valid, give a required field a default, or add "
    "a field or a version. Where x-kubernetes-list-type, its keys or x-kubernetes-map-type change, applies of "
    "several managers replace or duplicate each other's items.",
    replaces="crd-type-changed crd-field-required crd-list-type-changed",
)

CRD_CHANGED = Code.warning(
    "crd-changed",
    "another default, or a new rule of validation",
    "Objects that leave the field out mean something else from the next write on, and stored objects keep the "
    "old value: say so in the release notes. Stored objects that break a new rule can't be written any more, "
    "except where only other fields change: look at them first.",
    replaces="crd-default-changed crd-rule-added",
)


_CHANGES = {old: code for code in (CRD_REMOVED, CRD_NARROWED, CRD_CHANGED) for old in (code, *code.replaces)}
"""The code of each sort of change."""


def check_against(before: Iterable[Document], definitions: Sequence[Document]) -> list[Finding]:
    """The findings about changes that can refuse or lose objects."""
    now = {definition.body["metadata"]["name"]: definition for definition in definitions}
    findings: list[Finding] = []
    for earlier in before:
        name = earlier.body["metadata"]["name"]
        found = now.get(name)
        if found is None:
            words = f"the CRD {name} is gone: without it the API server deletes all its objects; keep it"
            findings.append(Finding(code=CRD_REMOVED, message=words))
            continue
        findings += [
            Finding(
                code=_CHANGES[each.code],
                message=f"{name}: {each.message}",
                location=found.location_of(each.path),
            )
            for each in crd_changes(earlier.body, found.body)
        ]
    return findings


def earlier_crds(state: str, crds: Sequence[Path], templates: Sequence[Path]) -> list[Document]:
    """The CRDs of a project, a folder or a file, or those that these folders had in a revision of git. Raises
    CommandError.
    """
    path = Path(state)
    if path.exists():
        below = path / "crds"
        return read_crds([below if below.is_dir() else path, *schema_files([path / "templates", path])])
    folders = [each for each in crds if each.name not in (SCHEMA, CONVERT)]
    with TemporaryDirectory() as temporary:
        try:
            found = [_checked_out(state, each, Path(temporary) / str(at)) for at, each in enumerate(folders)]
            short = [
                _checked_out(state, each, Path(temporary) / f"templates-{at}") for at, each in enumerate(templates)
            ]
            return read_crds([*found, *schema_files(short)])
        except CommandError as error:
            raise CommandError(_of_revision(str(error), state, temporary), code=error.code) from error


def _of_revision(message: str, revision: str, temporary: str) -> str:
    """The message with the names of files in the revision."""
    return re.sub(rf"{re.escape(temporary)}/(?:templates-)?[0-9]+/", f"{revision}:", message)


def _checked_out(revision: str, folder: Path, target: Path) -> Path:
    """Write what a folder or file had in a revision, as far as it may be CRDs, and return its new place."""
    place = folder.resolve()
    root = next(each for each in (place, *place.parents) if each.is_dir())
    if revision.startswith("-"):
        raise CommandError(f"there is no folder, file or revision {revision}", code=2)
    top = Path(_git(root, revision, "rev-parse", "--show-toplevel").decode().strip())
    _git(root, revision, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    below = place.relative_to(top.resolve()).as_posix()
    names = _git(top, revision, "ls-tree", "--name-only", "-z", "-r", "--full-tree", revision, "--", below)
    for name in names.decode().split("\0"):
        file = PurePosixPath(name)
        if file.name == SCHEMA or (file.suffix in SUFFIXES and below in (name, file.parent.as_posix())):
            written = target / name
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_bytes(_git(top, revision, "show", f"{revision}:{name}"))
    return target / below


def _git(folder: Path, revision: str, *arguments: str) -> bytes:
    try:
        # The revision is no option, and names no command.
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603
    except FileNotFoundError:
        raise CommandError(f"there is no folder or file {revision}, and git is not installed", code=2) from None
    except subprocess.CalledProcessError as error:
        why = error.stderr.decode(errors="replace").strip()
        raise CommandError(
            f"there is no folder, file or revision {revision}" + (f" ({why})" if why else ""), code=2
        ) from error


def unreported_revisions(sources: Sources, definitions: Iterable[Document]) -> Iterator[Finding]:
    """A finding for each folder with rollouts whose CRD declares no `status.revision`."""
    by_name = {each.body["metadata"]["name"]: each.body for each in definitions}
    for name, folder in sorted(sources.folders.items()):
        definition = by_name.get(name)
        if folder.settings.rollout is None or definition is None:
            continue
        for version in definition["spec"].get("versions", ()):
            if not version.get("served") or not has_status(definition, version["name"]):
                continue
            status = declared({"revision": ""}, status_schema(definition, version["name"]))
            if not (isinstance(status, Mapping) and "revision" in status):
                yield Finding(
                    code=CRD_WITHOUT_REPORT,
                    message=f"CRD {name} declares no status.revision in {version['name']}, so its objects can't show "
                    "which revision of the templates they are on",
                    location=SourceLocation(f"{name}/{SETTINGS}", _line(folder.files.get(SETTINGS, ""))),
                    fix="declare revision: {type: string} in the status of the CRD",
                )


def _line(settings: str) -> int:
    """The line of the setting."""
    lines = settings.split("\n")
    return next((number for number, line in enumerate(lines, 1) if line.startswith("rollout")), 1)
