"""Mistakes in a `_schema.yaml`: each is named with its file and line, what is wrong, and what to write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import pytest

from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.crd_files import CONVERSION, DefinitionError, load_crds, read_crds, schema_files
from ssa_operator.operator.crd_installation import remarks
from tests.operator.conversion import sites

SCHEMA = """\
kind: Site
version: v1
types:
  Port:
    number: integer | required minimum=1
spec:
  image: string | required
  replicas: integer | default=1 minimum=0 maximum=9
  size: string | enum=small,large default=small
  hosts: "[]string"
  ports: "[]Port"
status:
  address: string
  pods: integer
validation:
  - rule: self.replicas < 5 || self.size == 'large'
    message: small sites have less than 5 pods
columns:
  - {name: Desired, path: .spec.replicas}
scale: {replicas: .spec.replicas, statusReplicas: .status.pods}
"""
FILE = "templates/sites.example.com/_schema.yaml"


class Mistake(NamedTuple):
    """One edit of a schema without fault."""

    what: str
    before: str
    """The text that is replaced; '' for the whole file."""
    after: str
    line: int
    words: tuple[str, ...]


MISTAKES = (
    Mistake("an empty file", "", "\n", 1, ("is empty", "kind")),
    Mistake("a list", "", "- kind: Site\n", 1, ("a schema is a mapping of kind",)),
    Mistake("two documents", "kind: Site\n", "kind: Site\n---\n", 3, ("only one document",)),
    Mistake("no kind", "kind: Site\n", "", 1, ("kind: is missing", "kind: WebSite")),
    Mistake("a kind that is no name", "kind: Site", "kind: my site", 1, ("kind: the API server refuses it",)),
    Mistake("a mistyped key", "kind: Site", "kind: Site\nscoep: Cluster", 2, ("no field scoep", "mean scope?")),
    Mistake("another scope", "kind: Site", "kind: Site\nscope: Global", 2, ("scope: is Global", "Cluster or Namesp")),
    Mistake("another group", "kind: Site", "kind: Site\ngroup: a.b", 2, ("group: is a.b", "remove it")),
    Mistake("a text for a list", "kind: Site", "kind: Site\nshortNames: st", 2, ("shortNames: must be a list",)),
    Mistake("an invalid short name", "kind: Site", "kind: Site\nshortNames: [A B]", 2, ("shortNames[0]", "refuses")),
    Mistake("an invalid version", "version: v1", "version: 1.0", 2, ("version: must be a text",)),
    Mistake("a tab", "  image:", "\timage:", 7, ("tab",)),
    Mistake("a list without quotes", '"[]string"', "[]string", 10, ('write "[]TYPE" in double quotes',)),
    Mistake("a colon in a text", "string | required", "string | description=a: b", 7, ("mapping values",)),
    Mistake(
        "a marker with a colon", "string | required", "string | minLength: 3", 7, ("write image: string | minLength=3",)
    ),
    Mistake(
        "a colon in quotes",
        "string | required",
        'string | description="a: b"',
        7,
        ("image: 'string | description=\"a: b\"'",),
    ),
    Mistake("a marker behind a comma", "string | required", "string, required", 7, ("; write string | required",)),
    Mistake("an unknown type", "image: string", "image: strng", 7, ("spec.image: there is no type strng", "string?")),
    Mistake("a type of another language", "image: string", "image: str", 7, ("no type str", "write string | required")),
    Mistake("a mistyped type of its own", "[]Port", "[]Prot", 11, ("no type Prot", "did you mean Port?")),
    Mistake("a type like no other", "image: string", "image: xyz", 7, ("the types are string, integer", "[]TYPE")),
    Mistake("a number for a field", "image: string | required", "image: 5", 7, ("is no field", "type | marker=value")),
    Mistake("only markers", "image: string | required", 'image: "| required"', 7, ("has no type", "write type |")),
    Mistake("an unknown marker", "minimum=0", "min=0", 8, ("no marker min", "did you mean minimum?")),
    Mistake("a text without quotes", "| required\n  repl", "| description=a pod\n  repl", 7, ("marker pod", "double")),
    Mistake("quotes that stay open", "| required\n  repl", '| description="a\n  repl', 7, ("description", "quotes")),
    Mistake("a marker without value", "minimum=0", "minimum=", 8, ("minimum has no value", "minimum=VALUE")),
    Mistake("a marker twice", "minimum=0", "minimum=0 minimum=1", 8, ("minimum is there twice", "remove one")),
    Mistake("a default of another type", "default=1", "default=one", 8, ("default has one", "must be an integer")),
    Mistake("a default outside", "default=1", "default=10", 8, ("spec.replicas: the API server refuses it", "10")),
    Mistake("a default that no enum has", "default=small", "default=tiny", 9, ("tiny", "small", "large")),
    Mistake("a minimum that is no number", "minimum=0", "minimum=a", 8, ("minimum has a", "an integer")),
    Mistake("a minimum above", "minimum=0", "minimum=20", 8, ("minimum is above maximum",)),
    Mistake("an enum of another type", "maximum=9", "enum=1,b", 8, ("enum has b", "must be an integer")),
    Mistake("an enum in JSON", "maximum=9", 'enum=[1,"b"]', 8, ('enum has "b"', "must be an integer")),
    Mistake("JSON that is none", "maximum=9", "enum=[1,", 8, ("enum begins like JSON, and is none",)),
    Mistake("a pattern", "string | required", "string | pattern=(", 7, ("pattern is no regular expression",)),
    Mistake("a pattern of a number", "maximum=9", "pattern=a", 8, ("pattern is for string", "integer")),
    Mistake("a length of a number", "maximum=9", "maxLength=3", 8, ("maxLength is for string",)),
    Mistake("items of a text", "string | required", "string | maxItems=3", 7, ("maxItems is for array", "string")),
    Mistake("a negative length", "string | required", "string | maxLength=-3", 7, ("can't be negative",)),
    Mistake("unique mappings", '"[]Port"', '"[]Port | uniqueItems=true"', 11, ("uniqueItems is for lists of string",)),
    Mistake("required with a default", "default=1", "required default=1", 8, ("required, and has a default", "remove")),
    Mistake(
        "a flag that is none", "string | required", "string | required=yes", 7, ("required is yes", "true or false")
    ),
    Mistake(
        "an immutable field in a list", "required minimum=1", "immutable", 5, ("immutable can't be inside of a list",)
    ),
    Mistake("a type in itself", "number: integer", "more: Port\n    number: integer", 5, ("circle: Port -> Port",)),
    Mistake("the name of a type", "  Port:\n", "  string: string\n  Port:\n", 4, ("string: is a type already",)),
    Mistake("a field of the operator", "address: string", "conditions: object", 13, ("status.conditions", "remove it")),
    Mistake("a rule that ends too soon", "self.replicas < 5", "self.replicas <", 16, ("is no CEL expression",)),
    Mistake("a rule without self", "self.replicas", "replicas", 16, ("no variable replicas", "self.replicas")),
    Mistake("a rule about the spec", "self.replicas", "spec.replicas", 16, ("no variable spec", "self is the spec")),
    Mistake("a typo in a rule", "self.replicas", "self.replcas", 16, ("no field replcas", "did you mean replicas?")),
    Mistake("a rule without rule", "rule: self", "ruel: self", 16, ("there is no field ruel", "rule?")),
    Mistake("a column of no field", "path: .spec.replicas", "path: .spec.replcas", 19, (".spec.replcas", "replicas?")),
    Mistake("a column of no path", "path: .spec.replicas", "path: replicas", 19, ("columns[0]", "starting with .")),
    Mistake("a column of no type", "{name: Desired,", "{type: int, name: Desired,", 19, ("columns[0]", "integer")),
    Mistake("a column without path", "path: .spec.replicas", "width: 5", 19, ("there is no field width",)),
    Mistake("a scale of no field", ".status.pods", ".status.podz", 20, ("scale.statusReplicas", "pods?")),
    Mistake(
        "a scale without status", ", statusReplicas: .status.pods", "", 20, ("scale.statusReplicas: must be the path",)
    ),
    Mistake(
        "an older version with other fields",
        "kind: Site\n",
        "kind: Site\nversions:\n  v1alpha1:\n    spec: {image: string}\n",
        3,
        ("fields of v1alpha1 differ from those of v1", "_convert/v1alpha1-to-v1.yaml.j2", "v1-to-v1alpha1.yaml.j2"),
    ),
)


def write(folder: Path, text: str) -> Path:
    """The templates folder with one `_schema.yaml`."""
    path = folder / FILE
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return folder / "templates"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda each: each.what)
def test_a_mistake_in_a_short_schema_is_named_with_its_line(tmp_path: Path, mistake: Mistake) -> None:
    assert mistake.before in SCHEMA
    text = SCHEMA.replace(mistake.before, mistake.after, 1) if mistake.before else mistake.after
    templates = write(tmp_path, text)
    with pytest.raises(DefinitionError) as refused:
        load_crds(*schema_files([templates]))
    first = str(refused.value).replace(f"{tmp_path}/", "").splitlines()[0]
    assert first.startswith(f"{FILE}:{mistake.line}: "), first
    assert not [word for word in mistake.words if word not in first], first


def test_a_crd_and_a_short_schema_for_one_kind_are_an_error_with_both_files(tmp_path: Path) -> None:
    templates = write(tmp_path, SCHEMA)
    [document] = load_crds(*schema_files([templates]))
    assert document.body["metadata"]["name"] == "sites.example.com"
    crds = tmp_path / "crds"
    crds.mkdir()
    (crds / "site.yaml").write_bytes(json.dumps(document.body).encode())
    documents, problems = read_crds(crds, *schema_files([templates]))
    assert len(documents) == 1
    [problem] = problems.values()
    assert f"{tmp_path / FILE}:1: sites.example.com is defined at {crds / 'site.yaml'}:1 already" in problem


def test_a_folder_without_a_group_has_no_schema(tmp_path: Path) -> None:
    path = tmp_path / "templates" / "namespaces" / "_schema.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(SCHEMA)
    documents, problems = read_crds(path)
    assert documents == []
    assert "name it <plural>.<group>" in problems["namespaces"]


def test_an_error_about_the_crd_names_the_line_of_the_short_schema(tmp_path: Path) -> None:
    [document] = load_crds(*schema_files([write(tmp_path, SCHEMA)]))
    root = ("spec", "versions", 0, "schema", "openAPIV3Schema", "properties")
    for path, line in (
        ((*root, "spec", "properties", "ports", "items", "properties", "number", "minimum"), 5),
        ((*root, "spec", "properties", "hosts", "items"), 10),
        ((*root, "status", "properties", "pods"), 14),
        (("spec", "names", "plural"), 1),
        (("spec", "versions", 0, "subresources", "scale", "specReplicasPath"), 20),
    ):
        assert document.location_of(path).line == line, path


def test_a_crd_whose_folder_converts_needs_conversions_from_the_beginning(tmp_path: Path) -> None:
    templates = sites.write(tmp_path)
    (document,) = load_crds(*schema_files([templates]))
    assert document.body["spec"]["conversion"] == CONVERSION
    body = {**document.body, "spec": {key: each for key, each in document.body["spec"].items() if key != "conversion"}}
    (templates / sites.SITES / "_schema.yaml").unlink()
    crds = tmp_path / "crds"
    crds.mkdir()
    (crds / "sites.yaml").write_text(json.dumps(body))
    (document,) = load_crds(crds, *schema_files([templates]))
    assert document.body["spec"]["conversion"] == CONVERSION
    (document,) = load_crds(crds)
    assert "conversion" not in document.body["spec"]

    file = templates / sites.SITES / "_convert" / "v1-to-v1alpha1.yaml.j2"
    file.rename(file.with_name("_old.yaml.j2"))
    with pytest.raises(DefinitionError, match=r"^.*/sites.yaml:1: the fields of v1alpha1 differ .*; add .*1.yaml.j2$"):
        load_crds(crds, *schema_files([templates]))
    body["spec"]["conversion"] = {"strategy": "Webhook"}
    (crds / "sites.yaml").write_text(json.dumps(body))
    with pytest.raises(DefinitionError, match=r"has a conversion of its own, and .*/_convert has others"):
        load_crds(crds, *schema_files([templates]))


def test_the_operator_reads_the_version_that_is_stored(tmp_path: Path) -> None:
    templates = sites.write(tmp_path, sites.SCHEMA.replace("v1alpha1:", "v2:"))
    folder = templates / sites.SITES
    for way in ("v2-to-v1", "v1-to-v2"):
        (folder / "_convert" / f"{way}.yaml.j2").write_text("spec: {}\n")
    found, problems = read_crds(*schema_files([templates]))
    assert found == []
    assert problems[sites.SITES] == (
        f"{folder}/_schema.yaml:2: objects are stored in v1 and the operator reads v2, so that one that can't be "
        f"converted would keep it from all others; store v2, or write `version: v1` in {folder}/_settings.yaml"
    )
    (folder / "_settings.yaml").write_text("version: v1\n")
    found, problems = read_crds(*schema_files([templates]))
    assert (len(found), problems) == (1, {})


def test_only_a_crd_of_a_template_folder_is_told_once_what_its_status_lacks(tmp_path: Path) -> None:
    def version(name: str) -> dict[str, object]:
        return {"name": name, "served": True, "storage": name == "v1", "schema": {"openAPIV3Schema": {}}}

    crds = [
        Document(
            body={
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": {"name": name},
                "spec": {"versions": [version("v1alpha1"), version("v1")]},
            },
            location=SourceLocation("crds/all.yaml", 1),
            location_of=lambda _: SourceLocation("crds/all.yaml", 1),
        )
        for name in ("issuers.cert-manager.io", "webs.example.com")
    ]
    (tmp_path / "webs.example.com").mkdir()
    (remark,) = remarks(crds, [tmp_path, tmp_path / "missing"])
    assert remark.startswith("crds/all.yaml:1: CRD webs.example.com has no status subresource in v1, so")
