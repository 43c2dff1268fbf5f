"""From `--field` to a schema, and the names of a new resource."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.tools.scaffold.fields import QUANTITY, leaves, spec_schema
from ssa_operator.tools.scaffold.names import ResourceNames, ScaffoldError, refuse_invalid_names
from ssa_operator.tools.scaffold.project import NewRequest, parts
from tests.tools.scaffold.projects import findings, project, read, rendered


@pytest.mark.parametrize(
    ("field", "name", "schema"),
    [
        ("a:string", "a", {"type": "string"}),
        ("a:string=", "a", {"type": "string", "default": ""}),
        ("a:string=x=1,y!", "a", {"type": "string", "default": "x=1,y!"}),
        ("a:string=8080", "a", {"type": "string", "default": "8080"}),
        ("a:int=3", "a", {"type": "integer", "default": 3}),
        ("a:integer=3", "a", {"type": "integer", "default": 3}),
        ("replicas:int=3", "replicas", {"type": "integer", "minimum": 0, "default": 3}),
        ("a:boolean=true", "a", {"type": "boolean", "default": True}),
        ("a:float=1.5", "a", {"type": "number", "default": 1.5}),
        ("a:quantity=1Gi", "a", {**QUANTITY, "default": "1Gi"}),
        ("a:quantity=2", "a", {**QUANTITY, "default": "2"}),
        ("a:[]string=x,y", "a", {"type": "array", "items": {"type": "string"}, "default": ["x", "y"]}),
        ("a:list[int]=[1]", "a", {"type": "array", "items": {"type": "integer"}, "default": [1]}),
        ("a:map[string]int", "a", {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("a:map[string]", "a", {"type": "object", "additionalProperties": {"type": "string"}}),
        ("a:string:enum=s|l", "a", {"type": "string", "enum": ["s", "l"]}),
        ("a:string=s:enum=s|l", "a", {"type": "string", "enum": ["s", "l"], "default": "s"}),
        ("a:int:enum=1|2:default=2", "a", {"type": "integer", "enum": [1, 2], "default": 2}),
        ("a:int:minimum=1:maximum=5", "a", {"type": "integer", "minimum": 1, "maximum": 5}),
        ("a:number:minimum=0.5", "a", {"type": "number", "minimum": 0.5}),
        ("replicas:int:maximum=5", "replicas", {"type": "integer", "minimum": 0, "maximum": 5}),
        ("a:string=x:1:pattern=^x:[0-9]$", "a", {"type": "string", "pattern": "^x:[0-9]$", "default": "x:1"}),
        ("a:string:description=One: two = 2!", "a", {"type": "string", "description": "One: two = 2!"}),
        ("a:[]string:enum=x|y", "a", {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}}),
        ("a:[][]bool", "a", {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}}),
    ],
)
def test_a_field_has_the_schema_of_its_type(field: str, name: str, schema: dict[str, Any]) -> None:
    assert spec_schema([field]) == {"type": "object", "properties": {name: schema}}


def test_a_nested_default_holds_where_the_mapping_is_missing_and_a_required_field_requires_it() -> None:
    schema = spec_schema(["db.size:quantity=1Gi", "site.host:string!", "site.path:string=/", "free.form:string"])
    assert schema["required"] == ["site"]
    assert schema["properties"]["site"]["required"] == ["host"]
    assert schema["properties"]["db"]["default"] == {}
    assert "default" not in schema["properties"]["site"]
    assert {leaf.path: leaf.guaranteed for leaf in leaves(schema)} == {
        ("db", "size"): True,
        ("site", "host"): True,
        ("site", "path"): True,
        ("free", "form"): False,
    }


def test_a_list_of_mappings_has_the_fields_of_its_items() -> None:
    schema = spec_schema(["ports[].name:string!", "ports[].port:int"])
    ports = schema["properties"]["ports"]
    assert ports["items"]["required"] == ["name"]
    assert set(ports["items"]["properties"]) == {"name", "port"}
    assert "required" not in schema


def test_a_project_with_markers_passes_check_and_its_example_fits_them() -> None:
    fields = (
        "size:string=small:enum=small|large:description=How large the site is",
        "host:string!:pattern=^[a-z.]+$",
        "workers:int!:minimum=2:maximum=8",
    )
    with project(*(f"--field={each}" for each in fields)) as folder:
        assert findings(folder) == []
        assert read(folder / "examples" / "thing.yaml")["spec"] == {
            "size": "small",
            "host": "www.example.com",
            "workers": 2,
        }


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (["a"], "--field a is no field; write name:type"),
        (["a:strng"], "there is no type strng; did you mean string?"),
        (["a:int=x"], "default has x, and must be an integer"),
        (["a:int=1.5"], "default has 1.5, and must be an integer"),
        (["replicas:int=-1"], "the default is refused: in body should be greater than or equal to 0"),
        (["port:int=0"], "the default is refused: in body should be greater than or equal to 1"),
        (["a:bool=yes"], "default has yes, and must be true or false"),
        (["a:quantity=much"], "the default is no quantity"),
        (["a:duration=soon"], "the default is no duration"),
        (["a:[]int=1,x"], "default begins like JSON, and is none: [1,x]"),
        (["a:map[string]int=1"], "default has 1, and must be a mapping in JSON"),
        (["a-b:int"], "a-b is no valid name"),
        (["a:string=m:enum=s|l"], 'the default is refused: supported values: "s", "l"'),
        (["a:string=A:pattern=^[a-z]+$"], "the default is refused: in body should match '^[a-z]+$'"),
        (["a:number=7:maximum=5"], "the default is refused: in body should be less than or equal to 5"),
        (["a:int:enum=1|x"], "enum has x, and must be an integer"),
        (["a:int:enum="], "enum has an empty text, and must be an integer"),
        (["a:string:minimum=1"], "minimum is for integer or number"),
        (["a:int:pattern=x"], "pattern is for string"),
        (["a:int:maximum=x"], "maximum has x, and must be an integer"),
        (["a:int:minimum=5:maximum=1"], "minimum is above maximum"),
        (["a:string:pattern=["], "pattern is no regular expression"),
        (["a:string:enum=x:enum=y"], "enum is there twice"),
        (["a:string!:default=x"], "is required, and has a default"),
        (["a:string=y:default=x"], "default is there twice"),
        (["a:string!:pattern=^\\pL{9}-$"], "add a default"),
        (["a:string:enun=x"], "there is no marker enun; did you mean enum?"),
        (["a:int:min=1"], "there is no marker min; did you mean minimum?"),
        (["a[]:int"], "a list has its type, as in hosts:[]string"),
        (["a..b:int"], "a..b is no valid name"),
        (["a:int", "a:string"], "another --field declares a, too"),
        (["a:int", "a.b:string"], "another --field declares a with a type of its own"),
        (["a.b:int", "a:string"], "another --field declares a, too"),
        (["a[].b:int", "a.c:int"], "another --field declares a with a type of its own"),
    ],
)
def test_an_invalid_field_is_refused_with_the_reason(fields: list[str], words: str) -> None:
    with pytest.raises(ScaffoldError) as caught:
        spec_schema(fields)
    assert words in str(caught.value)
    assert fields[-1] in str(caught.value)


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["resources:object"], True),
        (["resources.limits:map[string]quantity", "resources.requests:map[string]quantity"], True),
        (["resources.limits:object"], True),
        (["resources:map[string]string"], False),
        (["resources.limits:string"], False),
        (["resources.cpu:string"], False),
        (["resources:string"], False),
    ],
)
def test_resources_are_those_of_the_container_only_if_they_have_their_fields(fields: list[str], expected: bool) -> None:
    with project(*(f"--field={field}" for field in fields)) as folder:
        deployment = rendered(folder)[0]
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        given = read(folder / "examples" / "thing.yaml")["spec"]["resources"]
        assert (container["resources"] == given) is expected
        assert ("env" in container) is not expected
        assert findings(folder) == []


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("WebSite", "websites"),
        ("Status", "statuses"),
        ("Policy", "policies"),
        ("Gateway", "gateways"),
        ("Box", "boxes"),
        ("Patch", "patches"),
    ],
)
def test_the_plural_is_the_one_that_kubernetes_derives(kind: str, plural: str) -> None:
    names = parts(NewRequest(kind=kind, group="example.com")).names
    assert (names.plural, names.singular) == (plural, kind.lower())
    assert parts(NewRequest(kind=kind, group="example.com", plural="others")).names.plural == "others"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "webSite"}, "'webSite' is no valid kind"),
        ({"kind": "Web-Site"}, "'Web-Site' is no valid kind"),
        ({"kind": ""}, "'' is no valid kind"),
        ({"kind": "A" * 60}, "at most 59 characters"),
        ({"group": "example"}, "with at least one dot"),
        ({"group": "Example.com"}, "is no valid API group"),
        ({"group": "apps.k8s.io"}, "is reserved for Kubernetes"),
        ({"plural": "Things"}, "is no valid plural"),
        ({"plural": "2things"}, "is no valid plural"),
        ({"version": "1"}, "use one as v1, v1beta1 or v1alpha1"),
        ({"group": ".".join(["a" * 60] * 4) + ".example"}, "use a shorter API group"),
    ],
)
def test_a_name_that_the_api_server_refuses_is_refused_before(changes: dict[str, str], words: str) -> None:
    given = {"kind": "Thing", "group": "example.com", "plural": "things", "version": "v1"} | changes
    with pytest.raises(ScaffoldError) as caught:
        refuse_invalid_names(ResourceNames(**given))
    assert words in str(caught.value)
