"""Checks the templates of folders, by their text and by rendering their examples, for `ssa-operator check`.

Promises:
- Every document of an example is rendered: after each render, its manifests become live objects that are ready, until
  nothing new is rendered.
- The other examples are objects that `lookup` finds, with the status that their templates render.
- The first example of each folder is varied as its CRD allows, and the errors of the variants name the varied field.
- Parents that an example's templates create are rendered, too, as deep as the operator would create them.
- One broken example hides no finding of another one, and one broken file none of another file.
- The output of a broken file is unknown, so nothing is reported as missing because of it.
- Nothing is reported of the objects of a CRD that the API server refuses, because the CRD has a finding of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import DecodeError

from ssa_operator.objects.annotations import PREFIX, Reference
from ssa_operator.objects.built_in_kinds import BUILT_IN_KINDS
from ssa_operator.objects.dependency_graph import graph_of
from ssa_operator.objects.identity import Identity, is_built_in, split_api_version
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.manifest import group_kind
from ssa_operator.objects.problem_hints import hint
from ssa_operator.objects.render_result import Document, RenderProblem
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.child import Action, FailureReason
from ssa_operator.reconcile.status.author_status import author_status, undeclared_fields
from ssa_operator.reconcile.status.child_status import kept_text
from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS
from ssa_operator.rendering.folder.folder_snapshot import read_snapshot
from ssa_operator.rendering.folder.loaded_folders import Folder, no_folder_message
from ssa_operator.rendering.jinja.templates import SHARED
from ssa_operator.schema.crd_schema import object_schema, status_schema
from ssa_operator.schema.kubernetes_schemas import has_types
from ssa_operator.schema.samples import sample_object
from ssa_operator.schema.variants import Variant, variants
from ssa_operator.tools.checks.checked_project import CheckedProject
from ssa_operator.tools.checks.child_rules import ChildNames
from ssa_operator.tools.checks.conversion_rules import check_conversions
from ssa_operator.tools.checks.field_rules import (
    REPEATED_CHANGE,
    SERVER_FIELD,
    UNDECLARED_FIELD,
    check_control_plane_fields,
    check_empty_values,
    check_server_fields,
)
from ssa_operator.tools.checks.manifest_rules import check_image_names, check_manifests, check_references, check_waits
from ssa_operator.tools.checks.name_rules import check_names, parse_files
from ssa_operator.tools.checks.parent_choices import (
    ENDLESS_PARENTS,
    check_lookups,
    check_manifest_choices,
    check_nesting,
    check_secrets,
)
from ssa_operator.tools.checks.ready_objects import ready_object
from ssa_operator.tools.checks.refusal_rules import AskedManifest, check_refusals, server_findings
from ssa_operator.tools.checks.shown_findings import (
    repaired,
    without_accepted,
    without_consequences,
    without_known,
    without_repeated,
)
from ssa_operator.tools.checks.text_rules import (
    check_files,
    check_folder_names,
    check_passwords,
    check_scalars,
    check_texts,
    may_apply_elsewhere,
    misnamed_example,
    rendered_kinds,
    with_field,
)
from ssa_operator.tools.findings import Code, Finding, Severity
from ssa_operator.tools.offline.offline_cluster import OfflineCluster, OfflineParent, RefusedParentError, created_parent
from ssa_operator.tools.offline.project import find_folder, read_version
from ssa_operator.tools.schema_rules import INVALID_QUANTITY, INVALID_VALUE, MISSING_FIELD, check_schemas

ROUNDS = 100
"""A chain of more manifests than this is not followed to its end."""

_GROUPS = frozenset(each.api_version.rpartition("/")[0] for each in BUILT_IN_KINDS) - {""}
"""The groups of Kubernetes. The folder of a group that has no dot and isn't one of them has a wrong name."""

NO_FOLDER = Code.warning(
    "no-folder",
    "no folder of a resource",
    "The templates folder has no folder that is named <plural>.<group>, so nothing is checked, and the "
    "operator reconciles nothing. Name the folder that contains it: check --templates FOLDER.",
)


def check_templates(roots: Sequence[Path], project: CheckedProject) -> list[Finding]:
    """The findings in the templates folders of a project; their locations are relative to these folders."""
    folders = [folder for folder in project.sources.folders.values() if folder.templates]
    snapshots = [read_snapshot(root) for root in roots]
    parsed = [parse_files(snapshot.files) for snapshot in snapshots]
    names = [finding for each in parsed for finding in check_names(each)]
    # The operator's own message on such a line is about the same mistake.
    explained = {_line(finding) for finding in names}
    wide = {folder.name for folder in folders if may_apply_elsewhere(folder, project.kinds.values())}

    def applies_elsewhere(file: str) -> bool:
        folder = file.partition("/")[0]
        return folder in wide or (folder == SHARED and bool(wide))

    choices = [
        finding
        for each in parsed
        for finding in (
            *check_lookups(each.trees),
            *check_secrets(each.trees),
            *check_manifest_choices(each.trees, applies_elsewhere),
        )
    ]
    advice = no_folder_message(roots, project.sources)
    missing = [Finding(code=NO_FOLDER, message=advice, location=None)] if advice else []
    examples = check_examples(project)
    broken = {_file(each) for each in examples if each.code in _REPLACED}
    files = [
        finding
        for root, each in zip(roots, parsed, strict=True)
        for finding in check_files(root, each.files, folders, broken)
    ]
    known = [kind.folder for kind in project.kinds.values()]
    custom: dict[str, Iterable[str]] = {
        each.name: each.files for each in folders if not is_built_in(each.group) or each.group not in _GROUPS
    }
    custom |= {
        name: [file.removeprefix(f"{name}/") for file in snapshot.files if file.startswith(f"{name}/")]
        for snapshot in snapshots
        for name in snapshot.folders
        if name not in project.sources.folders and not name.startswith("_")
    }
    # A refused CRD may have the folder under another name.
    unknown = check_folder_names(custom, known) if not project.refused else []
    names = [with_field(each, folders, project.kinds) for each in names]
    trees = {root: each.trees for root, each in zip(roots, parsed, strict=True)}
    others = [*missing, *choices, *check_texts(folders, trees, project.kinds, project.schemas), *examples]
    others += check_conversions(project)
    others = [each for each in others if each.code not in _REPLACED or _line(each) not in explained]
    texts = {name: text for each in parsed for name, text in each.files.items()}
    findings = repaired([*names, *files, *unknown, *others], texts)
    return without_accepted(without_consequences(findings), texts)


def _file(finding: Finding) -> str:
    return "" if finding.location is None else finding.location.file


TEMPLATE_ERROR = Code.error(
    "template-error",
    "a template that can't be loaded",
    "Jinja can't compile the file, or a file that it imports is missing. The operator keeps the last good"
    " templates of the folder, and reports the error in the status of every parent. Correct the line that"
    " the message names.",
)

RENDER_ERROR = Code.error(
    "render-error",
    "an example that can't be rendered",
    "For this example, or for a variant of it that the CRD allows, the template fails. The operator reports "
    "the same error as RenderFailed in the status of such a parent, and applies the other documents.",
)

_REPLACED = frozenset({TEMPLATE_ERROR, RENDER_ERROR})


def _line(finding: Finding) -> tuple[str, int] | None:
    return None if finding.location is None else (finding.location.file, finding.location.line)


FOLDER_WITHOUT_EXAMPLE = Code.warning(
    "folder-without-example",
    "a template folder without an example",
    "Only the syntax of the folder is checked, because there is no object to render it for. Add one to "
    "examples/, or name its file: check --examples FILE.",
)


def check_examples(project: CheckedProject) -> list[Finding]:
    """The findings of all folders."""
    findings = [_of_problem(TEMPLATE_ERROR, problem) for problem in project.sources.problems]
    for folder in project.sources.folders.values():
        findings += [_of_problem(TEMPLATE_ERROR, problem) for problem in folder.problems]
    broken = {_line(finding) for finding in findings}
    parents, others = _parents(project)
    refused_kinds = project.refused
    parents = [each for each in parents if group_kind(each) not in refused_kinds]
    misnamed = [
        each for each in (misnamed_example(each, project.kinds) for each in project.examples) if each is not None
    ]
    findings += misnamed
    parents = [each for each in parents if misnamed_example(each, project.kinds) is None]
    cluster = _ready_cluster(project)
    lookups = {live.identity: live for live in (LiveObject.of(ready_object(each.body)) for each in others)}
    alone = [_complete(cluster, parent, lookups) for parent in parents]
    complete = [each for each in alone if not isinstance(each, Finding)]
    lookups |= {live.identity: live for live in map(_with_status, complete)}
    cluster.claims.clear()
    varied: set[str] = set()
    asked: list[AskedManifest] = []
    child_names: dict[str, ChildNames] = {}
    for parent, first in zip(parents, alone, strict=True):
        found: OfflineParent | Finding = first
        if not isinstance(first, Finding):
            found = _complete(cluster, parent, {**first.observed.children.objects, **lookups})
        refused = check_example(cluster, parent)
        findings += refused
        if isinstance(found, Finding):
            if not any(finding.code == found.code for finding in refused):
                findings.append(found)
            continue
        own = list(_findings_of(found, project))
        own += without_repeated(_of_values(found, project), own)
        findings += own
        asked += _asked(found, project)
        # What is made of a wrong value has another type, too.
        findings += _dropped(found, project) if not any(each.code == INVALID_VALUE for each in own) else ()
        findings += _not_deterministic(cluster, parent, found)
        findings += check_nesting(found, lambda manifest: _played(project, manifest, lookups))
        names = child_names.setdefault(found.folder.name, ChildNames())
        names.add(found)
        if found.folder.name not in varied:
            varied.add(found.folder.name)
            findings += _of_variants(project, parent, found, names, own)
    for name, names in child_names.items():
        findings += names.findings(rendered_kinds(project.sources.folders[name]))
    with_example = {find_folder(each.body, project.sources, project.kinds).name for each in parents}
    # A refused CRD may have the folder under another name.
    unclear = refused_kinds or misnamed or project.unread_examples
    for name in sorted(project.sources.folders.keys() - with_example) if not unclear else ():
        message = f"there is no example for templates/{name}"
        findings.append(Finding(code=FOLDER_WITHOUT_EXAMPLE, message=message, location=None, about=name))
        if not any(each.code == ENDLESS_PARENTS for each in findings):
            findings += _nesting_of_sample(project, project.sources.folders[name], lookups)
    findings += without_known([each for refusal in project.ask(asked) for each in server_findings(refusal)], findings)
    # A name that is computed leads to a broken file only in a render.
    findings = [finding for finding in findings if finding.code != RENDER_ERROR or _line(finding) not in broken]
    return list(dict.fromkeys(findings))


def _nesting_of_sample(
    project: CheckedProject, folder: Folder, lookups: Mapping[Identity, LiveObject]
) -> Iterator[Finding]:
    """The finding about parents without end of a folder without an example, by a sample of its CRD."""
    rendered, location = rendered_kinds(folder), SourceLocation(f"CRD {folder.name}", 1)
    for kind in project.kinds.values():
        if kind.folder == folder.name and (rendered is None or any(each.kind in rendered for each in project.kinds)):
            metadata = {"name": "sample", **({"namespace": "default"} if kind.namespaced else {})}
            body = sample_object(kind.definition, read_version(folder, kind.definition), metadata, whole=False).body
            parent = _played(project, Document(body=body, location=location, location_of=lambda _: location), lookups)
            yield from check_nesting(parent, lambda each: _played(project, each, lookups)) if parent else ()


def ready_example(project: CheckedProject, folder: str) -> OfflineParent | None:
    """The first example of a template folder, rendered as if its children were ready; None if there is none."""
    parents, others = _parents(project)
    names = (find_folder(each.body, project.sources, project.kinds).name for each in parents)
    parent = next((each for each, name in zip(parents, names, strict=True) if name == folder), None)
    if parent is None or group_kind(parent) in project.refused:
        return None
    lookups = {live.identity: live for live in (LiveObject.of(ready_object(each.body)) for each in others)}
    found = _complete(_ready_cluster(project), parent, lookups)
    return None if isinstance(found, Finding) else found


def _ready_cluster(project: CheckedProject) -> OfflineCluster:
    return OfflineCluster(sources=project.sources, kinds=project.kinds, now=project.now, built_in_readiness=True)


INVALID_EXAMPLE = Code.error(
    "invalid-example",
    "an example that the API server refuses",
    "The example breaks the schema of its CRD or one of its validation rules (CEL): the message has the API "
    "server's words. Or its file is no YAML, or no object. The example is not rendered. Correct the example, "
    "or the CRD.",
)


def check_example(cluster: OfflineCluster, parent: Document) -> list[Finding]:
    """The findings about what the API server would refuse or remove in an example."""
    try:
        folder = find_folder(parent.body, cluster.sources, cluster.kinds)
        created = created_parent(parent, folder, cluster.kinds, cluster.now)
    except CommandError:
        return []  # a finding of its own
    invalid = [
        Finding(code=INVALID_EXAMPLE, message=f"{created.name} is invalid: {error.message}", location=error.location)
        for error in created.errors
    ]
    undeclared = [
        Finding(code=UNDECLARED_FIELD, message=each.message, location=each.location, fix=each.suggestion)
        for each in created.pruned
    ]
    return [*invalid, *undeclared]


def _parents(project: CheckedProject) -> tuple[list[Document], list[Document]]:
    """The examples that have a template folder, and the others."""
    parents: list[Document] = []
    others: list[Document] = []
    for document in project.examples:
        try:
            find_folder(document.body, project.sources, project.kinds)
        except CommandError:
            others.append(document)
        else:
            parents.append(document)
    return parents, others


def _complete(
    cluster: OfflineCluster, parent: Document, objects: Mapping[Identity, LiveObject], *, only_waiting: bool = False
) -> OfflineParent | Finding:
    """The parent with all manifests that can be rendered while everything is ready. `objects` are there before. With
    `only_waiting`, a parent none of whose manifests waits is rendered once.
    """
    try:
        return _all_ready(cluster, parent, objects, only_waiting=only_waiting)
    except RefusedParentError as error:
        return Finding(code=INVALID_EXAMPLE, message=str(error), location=parent.location)
    except CommandError as error:
        return Finding(code=RENDER_ERROR, message=str(error), location=parent.location)


def _all_ready(
    cluster: OfflineCluster, parent: Document, objects: Mapping[Identity, LiveObject], *, only_waiting: bool
) -> OfflineParent:
    cluster.objects = objects
    found = cluster.render(parent, verify=False)
    malformed: set[Identity] = set()
    for _ in range(ROUNDS):
        if only_waiting and not found.rendered.waits:
            break
        manifests = {step.identity: step.manifest for step in found.steps if step.manifest is not None}
        ready = {each: ready_object(manifest.body) for each, manifest in manifests.items() if each not in malformed}
        if all(_body(cluster, identity) == body for identity, body in ready.items()):
            break
        lives: dict[Identity, LiveObject] = {}
        for identity, body in ready.items():
            try:
                lives[identity] = LiveObject.of(body)
            except DecodeError:  # no API server has such an object, and the schema's finding says why
                malformed.add(identity)
        cluster.objects = {**cluster.objects, **lives}
        found = cluster.render(parent, verify=False)
    return found


def _played(
    project: CheckedProject, manifest: Document, objects: Mapping[Identity, LiveObject]
) -> OfflineParent | None:
    """A manifest as a parent, None if it has no folder or can't be rendered."""
    kind = project.kinds.get(group_kind(manifest))
    if kind is None or kind.folder not in project.sources.folders:
        return None
    found = _complete(_ready_cluster(project), manifest, objects)
    return None if isinstance(found, Finding) else found


NOT_DETERMINISTIC = Code.error(
    "not-deterministic",
    "a template whose result varies",
    "Two renders of the same parent differ. Every resync would be a change, so the operator refuses the "
    "document. Remove the expression whose result varies, or draw a value with generated().",
)


def _not_deterministic(cluster: OfflineCluster, parent: Document, found: OfflineParent) -> Iterator[Finding]:
    """The documents that another render of the same parent gives differently."""
    known = set(found.problems)
    for problem in cluster.render(parent).problems:
        if problem not in known:
            yield _of_problem(NOT_DETERMINISTIC, problem)


def _body(cluster: OfflineCluster, identity: Identity) -> object:
    live = cluster.objects.get(identity)
    return live.body if live is not None else None


def _with_status(parent: OfflineParent) -> LiveObject:
    body = dict(parent.observed.parent.body)
    status = body.get("status")
    body["status"] = {**(status if isinstance(status, Mapping) else {}), **parent.status.fields}
    return LiveObject.of(body)


INVALID_MANIFEST = Code.error(
    "invalid-manifest",
    "a manifest that the operator refuses",
    "The manifest breaks a rule of the operator: an object is rendered twice, or lies outside of the "
    "namespace of its parent without clusterScope, or has an owner that Kubernetes doesn't allow. The "
    "status of such a parent reports InvalidManifest.",
)

NEVER_DELETED = Code.warning(
    "never-deleted",
    "a manifest of what its parent lives in",
    "The manifest is the namespace that its parent lives in, or the CRD of the parent's kind. With it, "
    "everything else in the namespace or of the kind would be deleted, and the deletion would wait for the "
    "parent without an end. So the operator never deletes the object, neither with the parent nor when no "
    'template renders it any more. Set the annotation ssa-operator.dev/prune: "false" to say so, or render '
    "the object elsewhere.",
)


def _findings_of(parent: OfflineParent, project: CheckedProject) -> Iterator[Finding]:
    # The problems of a folder that doesn't load are findings of their own.
    known = parent.folder.problems
    yield from (
        _of_problem(RENDER_ERROR, problem)
        for problem in parent.problems
        if not problem.outdated and problem not in known
    )
    unread = any(each.location and each.location.file.startswith(_settings(parent.folder)) for each in known)
    # What a broken document would have is not missing.
    broken = {each.location.file for each in parent.problems if each.location}
    schema = [
        each
        for each in check_schemas(parent.rendered.documents, project.schemas)
        if not (each.code == MISSING_FIELD and each.location and each.location.file in broken)
    ]
    wrong = [each.message.partition(" ")[0] for each in schema if each.code == INVALID_VALUE]
    outside = {} if parent.folder.settings.cluster_scope else _namespace_lines(parent)
    for step in parent.steps:
        # The settings may allow it; and of a field of a wrong type, the schema says which line has it.
        shown = any(f"has {field} " in step.reason for field in wrong)
        cyclic = step.problem is FailureReason.DEPENDENCY_CYCLE  # a finding of its own
        if step.action is Action.REFUSE and not unread and not shown and not cyclic:
            message = f"{step.identity} {step.reason}"
            location = outside.get(step.identity, step.location)
            yield Finding(code=INVALID_MANIFEST, message=message, location=location)
        if step.why_kept:
            message = f"{step.identity}: {kept_text(step.why_kept)}"
            fix = f'set the annotation {PREFIX}prune: "false" to say so'
            yield Finding(code=NEVER_DELETED, message=message, location=step.location, fix=fix)
    yield from _cycles(parent)
    yield from schema
    # A rule reads what has the types of its kind; of what has not, the schema's finding says what to correct.
    sound = _sound(parent, project)
    yield from check_manifests(sound, project.not_awaited)
    yield from check_waits(parent.rendered.waits, sound, project.not_awaited)
    yield from check_empty_values(sound, project.schemas)
    namespace = parent.observed.parent.identity.namespace
    yield from check_control_plane_fields(sound, namespace, project.scale_paths)
    values = parent.folder.templates.surroundings.values if parent.folder.templates is not None else {}
    yield from check_server_fields(sound, parent.observed.parent.body, values)


def _sound(parent: OfflineParent, project: CheckedProject) -> list[Document]:
    """The manifests whose values have the types of their kinds."""
    return [each for each in parent.rendered.documents if has_types(each.body, project.schemas)]


def _asked(parent: OfflineParent, project: CheckedProject) -> Iterator[AskedManifest]:
    """The manifests that the operator would send, and whose values have the types of their kinds."""
    for step in parent.steps:
        if step.manifest is not None and has_types(step.manifest.document.body, project.schemas):
            yield AskedManifest(document=step.manifest.document, body=step.manifest.body)


def _namespace_lines(parent: OfflineParent) -> dict[Identity, SourceLocation]:
    """The lines that place manifests outside of the parent's namespace."""
    namespace = parent.observed.parent.identity.namespace
    return {
        each.identity: each.location_of(("metadata", "namespace"))
        for each in parent.rendered.documents
        if namespace and each.identity.namespace not in ("", namespace)
    }


def _of_values(parent: OfflineParent, project: CheckedProject) -> Iterator[Finding]:
    """The findings about values that an author of a parent chooses, so that no variant is asked for them."""
    sound = _sound(parent, project)
    yield from check_refusals(sound, project.schemas)
    yield from check_image_names(sound)
    if not parent.problems and len(sound) == len(parent.rendered.documents):  # else not all names are known
        waiting = [each.identity for each in parent.rendered.waits if each.identity is not None]
        known = [Reference(each.kind, each.name) for each in (*waiting, *(doc.identity for doc in project.examples))]
        yield from check_references(sound, parent.observed.parent.body, known)
    files = {f"{parent.folder.name}/{name}": text for name, text in parent.folder.files.items()}
    yield from check_passwords(sound, files)
    yield from check_scalars(parent.rendered.documents, files)


def _settings(folder: Folder) -> str:
    """The beginning of the name of a folder's settings file, which an editor's variant of the name shares."""
    return f"{folder.name}/{SETTINGS.partition('.')[0]}."


UNRESTRICTED_FIELD = Code.warning(
    "unrestricted-field",
    "a field of the parent that permits what a template can't use",
    "A parent may have any number in this field, and a large one is too much for a render, for example in a "
    "loop over range(). Or it may have any text, and templates use it as the name of an object, which has "
    "lower case letters, digits and -. Declare a maximum or a pattern in the _schema.yaml or in the CRD: the "
    "API server refuses other parents, in place of an error in their status. Or convert a text with k8s_name.",
    replaces="unlimited-number unrestricted-name",
)

SHOWN_IN_VARIANTS = frozenset({REPEATED_CHANGE, SERVER_FIELD, UNRESTRICTED_FIELD})
"""The codes of warnings about the variants of an example; of all others only errors are reported."""


def _of_variants(
    project: CheckedProject, parent: Document, complete: OfflineParent, names: ChildNames, known: Sequence[Finding]
) -> Iterator[Finding]:
    """The errors of the variants of an example that its CRD allows, and the warnings that only a variant may show: an
    autoscaler is often optional. The children of the example are there. A mistake that the example shows is left out.
    """
    shown = {(each.code, each.location) for each in known}
    kind = project.kinds.get(group_kind(parent))
    version = split_api_version(parent.body["apiVersion"])[1]
    schema = None if kind is None else object_schema(kind.definition, version)

    def allowed(body: Mapping[str, Any]) -> bool:
        return not created_parent(replace(parent, body=body), complete.folder, project.kinds, project.now).errors

    named: set[FieldPath] = set()
    for variant in variants(parent.body, schema, allowed) if schema is not None else ():
        document = replace(parent, body=variant.body)
        cluster = _ready_cluster(project)
        found = _complete(cluster, document, complete.observed.children.objects, only_waiting=True)
        if isinstance(found, Finding):
            continue
        names.add(found)
        subject = f"with {variant}"
        by_author = {each.location for each in found.problems if each.by_author}
        for finding in _findings_of(found, project):
            if (finding.code, finding.location) in shown or finding.location in by_author:
                continue
            if variant.unlimited and finding.code == RENDER_ERROR:
                yield _without_maximum(finding, variant, complete.folder)
                continue
            if variant.any_text and _NAME_FAULT.match(finding.message):
                if variant.field not in named:
                    yield _without_pattern(finding, variant, complete.folder)
                named.add(variant.field)
                continue
            is_error = finding.severity is Severity.ERROR and finding.code != INVALID_QUANTITY
            if is_error or finding.code in SHOWN_IN_VARIANTS:
                yield replace(finding, subject=f"{finding.subject} {subject}".strip())


_NAME_FAULT = re.compile(r"(?:[\w\[\]]+\.)*\w*[nN]ame(?:space)? ")
"""Begins the message about a field that names an object."""

_NAME_PATTERN = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"


def _without_pattern(finding: Finding, variant: Variant, folder: Folder) -> Finding:
    """The finding about a name that no object may have, because a parent's field may be any text."""
    field = field_text(variant.field)
    message = f"{field} names an object, and may be any text: {finding.message.partition(', and this is')[0]}"
    fix = f"declare pattern {_NAME_PATTERN} of {field} in {SCHEMA if SCHEMA in folder.files else 'its CRD'}"
    return replace(finding, code=UNRESTRICTED_FIELD, message=message, fix=fix)


def _without_maximum(finding: Finding, variant: Variant, folder: Folder) -> Finding:
    """The finding about a render that fails because a parent's number may have any size."""
    field = field_text(variant.field)
    message = f"{field} has no maximum, and a large number fails: {finding.message}"
    fix = f"declare maximum of {field} in {SCHEMA if SCHEMA in folder.files else 'its CRD'}"
    return replace(finding, code=UNRESTRICTED_FIELD, message=message, fix=fix)


DROPPED_STATUS_FIELD = Code.warning(
    "dropped-status-field",
    "a field of _status.yaml.j2 that is not written",
    "The operator drops the field or condition, and logs it: its name is the operator's own, a condition "
    "breaks a rule of Kubernetes, or the schema of the CRD doesn't declare the field, so that the API server "
    "would refuse the whole status.",
)


def _dropped(parent: OfflineParent, project: CheckedProject) -> Iterable[Finding]:
    """The fields of the status that the operator doesn't write."""
    live = parent.observed.parent
    kind = project.kinds.get(live.identity.group_kind)
    schema = None if kind is None else status_schema(kind.definition, live.version)
    own = author_status(live, parent.status)
    for each in (*own.dropped, *undeclared_fields(own, parent.status, schema)):
        fix = "write what is below it without the line status:" if each.path == ("status",) else ""
        yield Finding(code=DROPPED_STATUS_FIELD, message=each.message, location=each.location, fix=fix)


DEPENDENCY_CYCLE = Code.error(
    "dependency-cycle",
    "manifests that wait for each other",
    "Each manifest of the cycle reads a field of the next one, or names it in ssa-operator.dev/after, so none "
    "of them is ever applied. Read a field with default, or take the value from spec.",
)


def _cycles(parent: OfflineParent) -> Iterable[Finding]:
    graph = graph_of(parent.rendered, lambda identity: identity)
    locations = {wait.identity: wait.location for wait in parent.rendered.waits if wait.identity is not None}
    for cycle in graph.cycles():
        message, fix = f"these manifests wait for each other: {graph.path(cycle)}", ""
        if len(cycle) == 1:
            message, fix = f"{graph.label(cycle[0])} waits for itself", "read it with live() in place of child()"
        yield Finding(code=DEPENDENCY_CYCLE, message=message, location=locations.get(cycle[0]), fix=fix)


def _of_problem(code: Code, problem: RenderProblem) -> Finding:
    return Finding(code=code, message=problem.message, location=problem.location, fix=hint(problem.message))
