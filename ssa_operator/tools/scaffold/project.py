"""Everything that `ssa-operator new` writes for one resource.

Promises:
- Templates made of manifests, rendered for the example, give the original manifests.
- The CRD declares every field that the templates read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from ssa_operator.objects.identity import split_api_version
from ssa_operator.schema.crd_schema import object_schema, version_priority
from ssa_operator.schema.crd_validation import validate_crd
from ssa_operator.schema.field_errors import FieldError, error_field
from ssa_operator.schema.metadata_validation import label_faults
from ssa_operator.schema.samples import sample_object
from ssa_operator.tools.offline.project import possible_plurals
from ssa_operator.tools.scaffold import starter
from ssa_operator.tools.scaffold.fields import complete, definition, example, guaranteed_spec, infer, spec_schema
from ssa_operator.tools.scaffold.manifest_templates import manifest_templates
from ssa_operator.tools.scaffold.names import ResourceNames, ScaffoldError, is_protected, refuse_invalid_names
from ssa_operator.tools.scaffold.parameters import Parameter

VERSION = "v1alpha1"
"""The version of a new resource, by the convention for an API that may still change."""


class NewRequest(Struct, frozen=True, kw_only=True):
    """The user's request. At most one of `fields`, `example`, `crd` and `manifests` is given."""

    kind: str
    group: str = ""
    plural: str = ""
    version: str = ""
    fields: tuple[str, ...] = ()
    """As `--field` has them."""
    instance: str = ""
    """The name in the manifests that becomes the parent's."""
    example: Mapping[str, Any] | None = None
    crd: Mapping[str, Any] | None = None
    manifests: Sequence[Mapping[str, Any]] | None = None
    notes: Sequence[str] = ()
    """What the author has to know about the manifests."""


class Parts(Struct, frozen=True, kw_only=True):
    """The files to write."""

    names: ResourceNames
    crd: Mapping[str, Any]
    templates: Mapping[str, str]
    """The text of each file of the template folder, by its name."""
    example: Mapping[str, Any]
    open_places: Sequence[FieldError] = ()
    """Why the API server refuses the example, where no value is known; then there is no golden case."""
    case_parent: Mapping[str, Any] | None = None
    """The parent of the golden case, None for the example: another name shows what changes with it."""
    given_crds: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The CRDs among the given manifests, by name."""
    parameters: Sequence[Parameter] = ()
    """The values of manifests that became fields."""
    notes: Sequence[str] = field(default=())
    """Notes for the author, as sentences."""


def parts(request: NewRequest) -> Parts:
    """The files for a request. Raises ScaffoldError."""
    if request.crd is not None:
        return _of_crd(request, request.crd)
    if request.example is not None:
        return _of_example(request, request.example)
    if request.manifests is not None:
        return _of_manifests(request, request.manifests)
    names = _names(request, request.group, request.version)
    spec = spec_schema(request.fields or starter.FIELDS)
    return Parts(
        names=names,
        crd=definition(names, spec, ready_replicas=True),
        templates=starter.starter(names, spec, own_crd=True),
        example=example(names, spec, names.singular, starter.SAMPLES),
    )


def folder_of(kind: str, plural: str, group: str) -> str:
    """The name of the template folder of a kind, '' without a group."""
    return f"{_plural(kind, plural)}.{group}" if group else ""


def _plural(kind: str, given: str) -> str:
    return given or (possible_plurals(kind)[0] if kind else "")


def _names(request: NewRequest, group: str, version: str) -> ResourceNames:
    if not group:
        raise ScaffoldError("the API group is missing; name it with --group, as in --group example.com")
    kind = request.kind
    names = ResourceNames(
        kind=kind,
        group=group,
        plural=_plural(kind, request.plural),
        version=version or VERSION,
    )
    refuse_invalid_names(names)
    return names


def _same(option: str, given: str, found: str, source: str) -> str:
    """The found name. Raises ScaffoldError if the user gave another one."""
    if given and given != found:
        raise ScaffoldError(f"{option} is {given}, and {source} has {found}; leave out the option or correct it")
    return found


def _of_example(request: NewRequest, given: Mapping[str, Any]) -> Parts:
    group, version = split_api_version(given["apiVersion"])
    _same("the kind", request.kind, given["kind"], "the example")
    names = _names(
        request,
        _same("--group", request.group, group, "the example"),
        _same("--api-version", request.version, version, "the example"),
    )
    content = given.get("spec") or {}
    if not isinstance(content, Mapping):
        raise ScaffoldError("spec of the example must be a mapping")
    others = sorted(given.keys() - {"apiVersion", "kind", "metadata", "spec", "status"})
    inferred = {"type": "object", "properties": {key: infer(value, key) for key, value in content.items()}}
    body = {key: value for key, value in given.items() if key not in ("status", *others)}
    metadata = {key: value for key, value in given["metadata"].items() if key in _OWN_METADATA}
    return Parts(
        names=names,
        crd=definition(names, inferred, ready_replicas=True),
        templates=starter.starter(names, inferred, own_crd=True),
        example={**body, "metadata": metadata},
        notes=[f"the example's field {name} is left out, because only spec is read" for name in others],
    )


_OWN_METADATA = ("name", "namespace", "labels", "annotations")


def _of_crd(request: NewRequest, crd: Mapping[str, Any]) -> Parts:
    spec = crd.get("spec")
    if crd["kind"] != "CustomResourceDefinition" or not isinstance(spec, Mapping):
        raise ScaffoldError(f"--from-crd names a {crd['kind']}; name the file of a CRD")
    served = [each["name"] for each in spec.get("versions") or () if each.get("served")]
    given = spec.get("names")
    if not served or not isinstance(given, Mapping):
        raise ScaffoldError(f"CRD {crd['metadata']['name']} has no names or serves no version; correct it")
    read = max(served, key=version_priority)
    version = request.version or read
    if version not in served:
        raise ScaffoldError(f"--api-version is {version}, and the CRD serves {', '.join(served)}; choose one of these")
    names = ResourceNames(
        kind=_same("the kind", request.kind, given.get("kind", ""), "the CRD"),
        group=_same("--group", request.group, spec.get("group", ""), "the CRD"),
        plural=_same("--plural", request.plural, given.get("plural", ""), "the CRD"),
        version=version,
    )
    if errors := validate_crd(crd):
        raise ScaffoldError(f"the API server refuses CRD {crd['metadata']['name']}: {errors[0]}; correct it")
    namespaced = spec.get("scope") == "Namespaced"
    metadata = {"name": names.singular, **({"namespace": "default"} if namespaced else {})}
    sample = sample_object(crd, version, metadata, whole=False, words=starter.SAMPLES)
    fields = guaranteed_spec(object_schema(crd, version) or {})
    name = "{{ name }}" if not label_faults(sample.body["metadata"]["name"]) else starter.LEGAL_NAME
    templates = starter.starter(names, fields, own_crd=False, namespaced=namespaced, name=name)
    if version != read:
        templates["_settings.yaml"] = f"version: {version}\n"
    notes = []
    if is_protected(names.group) and _APPROVAL not in (crd["metadata"].get("annotations") or {}):
        notes.append(f"the API server refuses a CRD of the group {names.group} without the annotation {_APPROVAL}")
    if sample.errors:
        places = ", ".join(dict.fromkeys(error_field(error.path) for error in sample.errors))
        notes.append(
            f"no value is known that the API server accepts for {places}; fill in the marked places of the example. "
            f"For a golden case, copy it to tests/{names.folder}/example/parent.yaml and run ssa-operator test --update"
        )
    return Parts(
        names=names,
        crd=crd,
        templates=templates,
        example=sample.body,
        open_places=sample.errors,
        notes=notes,
    )


_APPROVAL = "api-approved.kubernetes.io"


def _of_manifests(request: NewRequest, manifests: Sequence[Mapping[str, Any]]) -> Parts:
    names = _names(request, request.group, request.version)
    made = manifest_templates(manifests, request.instance, names.singular)
    if names.folder in made.crds:
        raise ScaffoldError(f"the manifests have a CRD {names.folder}, too; use another kind, --group or --plural")
    spec: dict[str, Any] = {"type": "object", "properties": {}}
    for parameter in made.parameters:
        at = spec["properties"]
        for part in parameter.path[:-1]:
            at = at.setdefault(part, {"type": "object", "properties": {}})["properties"]
        at[parameter.path[-1]] = dict(parameter.schema)
    secrets = spec["properties"].get("secrets")
    given = [parameter.path[-1] for parameter in made.parameters if "default" not in parameter.schema]
    if given:
        secrets["required"] = given
    content = {"secrets": dict.fromkeys(given, "change-me")} if given else {}
    parent = {**example(names, {"type": "object"}, made.name, {}, made.namespace), "spec": content}
    return Parts(
        names=names,
        crd=definition(names, complete(spec), ready_replicas=False),
        templates=made.files,
        example=parent,
        case_parent={**parent, "metadata": {"name": f"{made.name}-two", "namespace": "other"}},
        parameters=made.parameters,
        given_crds=made.crds,
        notes=[*request.notes, *made.notes],
    )
