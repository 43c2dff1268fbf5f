"""Makes the template folder of a resource of manifests.

Promises:
- Rendered for the example, every manifest equals the given one, but for what a note names.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.source_location import field_text
from ssa_operator.tools.scaffold.cleaning import (
    DRAWN,
    GIVEN,
    Notes,
    absent_secrets,
    clean,
    given_crds,
    note_exclusive_values,
    scopes_of,
    title,
)
from ssa_operator.tools.scaffold.instance_labels import add_instance_labels
from ssa_operator.tools.scaffold.instance_names import InstanceNames, find_instance, find_namespace
from ssa_operator.tools.scaffold.names import ScaffoldError
from ssa_operator.tools.scaffold.parameters import Parameter, Parameters, component_of, without_scaled_replicas
from ssa_operator.tools.scaffold.template_text import TemplateText


class ManifestTemplates(Struct, frozen=True, kw_only=True):
    """A template folder, and what goes with it."""

    files: Mapping[str, str]
    """The text of each file by its name."""
    name: str
    """The name of the example."""
    namespace: str
    """The namespace of the example. No manifest names it, because the example's own objects are there."""
    parameters: Sequence[Parameter]
    """The values that became fields."""
    crds: Mapping[str, Mapping[str, Any]]
    """The CRDs among the manifests by their names."""
    notes: Sequence[str]
    """Notes for the author, as sentences."""


def manifest_templates(manifests: Sequence[Mapping[str, Any]], instance: str, singular: str) -> ManifestTemplates:
    """The template folder. `instance` is the name that becomes the parent's, '' to find it; `singular` is the name of
    the example if there is none. Raises ScaffoldError.
    """
    crds, given = given_crds(manifests)
    namespace = find_namespace(given)
    notes = Notes()
    bodies = clean(given, namespace, notes)
    if not bodies:
        raise ScaffoldError("\n".join(["no manifest is left to make templates of", *notes]))
    if namespace not in ("", "default"):
        notes.say(f"the manifests were in the namespace {namespace}, and go into that of the object")
    instance = instance or find_instance(bodies)
    text = TemplateText(json.dumps(bodies))
    renamed = InstanceNames(
        instance=instance,
        namespace=namespace,
        bodies=bodies,
        absent=absent_secrets(given, bodies, instance),
        text=text,
    )
    add_instance_labels(bodies, renamed, notes)
    notes.add("replicas are left to its HorizontalPodAutoscaler", *without_scaled_replicas(bodies))
    parameters = Parameters(text, instance)
    files: dict[str, str] = {}
    kept: list[str] = []
    shared: list[str] = []
    for body in bodies:
        component = component_of(body, instance, bodies)
        written = renamed.replaced(body)
        # A parameter holds the value of the manifest itself, without the name of the parent.
        wired = copy.deepcopy(body)
        parameters.wire(wired, component)
        merged = _merged(written, wired, text)
        head = ""
        if body["kind"] == "Secret" and merged.get("stringData"):
            words = body["stringData"]
            head = "".join(f"{{% set {_variable(key)} = generated() %}}\n" for key in words if _is_read(key, words))
            for key in words:
                merged["stringData"][key] = _secret_value(key, words, renamed, text) or merged["stringData"][key]
        name = _file_name(body, instance, bodies, files)
        files[name] = head + text.write(merged)
        for places, paths in ((kept, renamed.kept), (shared, renamed.shared)):
            places += [f"{name}:{text.line(merged, path)} ({field_text(path)} of {title(body)})" for path in paths]
    _refuse_equal_names(bodies, renamed)
    _note_names(bodies, renamed, notes)
    note_exclusive_values(bodies, notes)
    if kept:
        notes.say(f"these texts have names of objects that are ordinary words, too, and stay: {', '.join(kept)}")
    if shared:
        reason = f"have {instance} in names that no manifest has, and stay, so all objects share them"
        notes.say(f"these texts {reason}: {', '.join(shared)}")
    files |= _settings(bodies, crds, notes)
    return ManifestTemplates(
        files=files,
        name=instance or singular,
        namespace=namespace if any(body["metadata"].get("namespace") == "default" for body in bodies) else "default",
        parameters=tuple(parameters.found.values()),
        crds={crd["metadata"]["name"]: crd for crd in crds},
        notes=list(notes),
    )


def _is_read(key: str, words: Mapping[str, str]) -> bool:
    """Whether another value of the same Secret is the drawn value of this key."""
    return words[key] == DRAWN and f"/{key}" in words.values()


def _variable(key: str) -> str:
    """The variable with the drawn value of a key."""
    return f"generated_{re.sub('[^a-z0-9]+', '_', key.lower()).strip('_')}"


def _secret_value(key: str, words: Mapping[str, str], renamed: InstanceNames, text: TemplateText) -> str | None:
    """The mark of a Secret's value, None for that of a field."""
    word = words[key]
    if word == DRAWN:
        return text.mark(_variable(key) if _is_read(key, words) else "generated()")
    if word == GIVEN:
        return None
    name, _, key = word.partition("/")
    if not name:
        return text.mark(_variable(key))
    parts = renamed.renamed(name).split(text.mark("name"))
    pieces = [json.dumps(part) if part else None for part in parts]
    written = " ~ name ~ ".join(piece or '""' for piece in pieces).removeprefix('"" ~ ').removesuffix(' ~ ""')
    return text.mark(f'child("Secret", {written}).data[{json.dumps(key)}] | b64decode')


def _refuse_equal_names(bodies: Sequence[Mapping[str, Any]], renamed: InstanceNames) -> None:
    """Raise ScaffoldError if two manifests would have the same name."""
    found: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for body in bodies:
        metadata = body["metadata"]
        name = metadata["name"] if renamed.is_identity(body) else renamed.rename(metadata["name"])
        known = found.setdefault((body["kind"], metadata.get("namespace", ""), name), body)
        if known is not body:
            raise ScaffoldError(
                f"{title(known)} and {title(body)} would have the same name for an object; rename one of them, or name "
                "another --instance"
            )


def _settings(
    bodies: Sequence[Mapping[str, Any]], crds: Sequence[Mapping[str, Any]], notes: Notes
) -> Mapping[str, str]:
    """The file of settings, if children are outside of the parent's namespace."""
    scopes = scopes_of(crds)
    wide = []
    for body in bodies:
        kind = GroupKind.of(body["apiVersion"], body["kind"])
        if kind not in scopes:
            notes.add("a kind of unknown scope, which counts as namespaced; give its CRD with the manifests", body)
        if not scopes.get(kind, True) or body["metadata"].get("namespace"):
            wide.append(body)
    if not wide:
        return {}
    notes.add(
        "is outside of the object's namespace; _settings.yaml allows that (clusterScope), and two objects must not "
        "have such a child of one name",
        *wide,
    )
    return {"_settings.yaml": "clusterScope: true\n"}


def _merged(renamed: Any, wired: Any, text: TemplateText) -> Any:
    """The manifest with the marks of both: those of parameters win."""
    if isinstance(wired, str) and text.is_marked(wired):
        return wired
    if isinstance(renamed, Mapping) and isinstance(wired, Mapping):
        return {key: _merged(item, wired[key], text) for key, item in renamed.items()}
    if isinstance(renamed, list) and isinstance(wired, list):
        return [_merged(one, other, text) for one, other in zip(renamed, wired, strict=True)]
    return renamed


def _file_name(
    body: Mapping[str, Any], instance: str, bodies: Sequence[Mapping[str, Any]], taken: Mapping[str, str]
) -> str:
    """The name of a template: the kind, and also the name if there are several of the kind."""
    kind = str(body["kind"]).lower()
    rest = str(body["metadata"]["name"]).removeprefix(instance).strip("-")
    several = sum(each["kind"] == body["kind"] for each in bodies) > 1
    stem = f"{kind}-{rest}" if several and rest else kind
    stem = "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in stem)
    candidates = [f"{stem}.yaml.j2", *(f"{stem}-{number}.yaml.j2" for number in range(2, len(bodies) + 2))]
    return next(name for name in candidates if name not in taken)


def _note_names(bodies: Sequence[Mapping[str, Any]], renamed: InstanceNames, notes: Notes) -> None:
    if not renamed.instance:
        notes.say("the names have no beginning in common, so the name of the object comes before each")
    for body in bodies:
        name = body["metadata"]["name"]
        if renamed.is_identity(body):
            notes.add("the name has a meaning of its own and stays, so only one object can have it", body)
        elif renamed.instance and not renamed.contains(name):
            notes.add(f"a name without {renamed.instance}, so the name of the object comes before it", body)
