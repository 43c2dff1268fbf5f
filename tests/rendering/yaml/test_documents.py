"""Documents of YAML text: scalars, structure, and the errors of both."""

from __future__ import annotations

from typing import Any

import pytest

from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.rendering.render import render
from ssa_operator.rendering.yaml import nodes
from tests.rendering.template_files import HEAD, document, field, manifest, parent, problem, rendered, templates

WORDS = (
    *("on", "off", "yes", "no", "Yes", "NO", "y", "n", "On", "tRUE", "nULL", "=", "None"),
    *("010", "0644", "-010", "00", "1:30", "190:20:30", "1_000", "0x", "0o8", "0b1", "1e", "e3"),
    *("2001-12-14", "2001-12-14T21:59:43Z", "1.2.3", ".", "+", "1-2", "1Gi", "100m"),
)

PLACE = "echoes.example.com/a.yaml.j2:"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *[(word, word) for word in WORDS],
        *[(word, True) for word in ("true", "True", "TRUE")],
        *[(word, False) for word in ("false", "False", "FALSE")],
        *[(word, None) for word in ("null", "Null", "NULL", "~", "")],
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("0o17", 15),
        ("0x1F", 31),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.0", 1.0),
        (".5", 0.5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("-1.5E-2", -0.015),
        ("'1'", "1"),
        ('"true"', "true"),
        ("!!str 1", "1"),
        ("! 1", "1"),
        ("<<", "<<"),
    ],
)  # fmt: skip
def test_scalars_of_templates_are_those_of_yaml_1_2(text: str, value: Any) -> None:
    (found,) = rendered({"a.yaml.j2": f"{HEAD}v: {text}\n"}).documents
    assert (found.body["v"], type(found.body["v"])) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v: 1\nv: 2\n", f"6: the key v is there twice, first at {PLACE}5"),
        ("v: {a: 1, 'a': 2}\n", "5: the key a is there twice"),
        ("v:\n  80: x\n", '6: the key 80 is not a string; write "80"'),
        ("v:\n  true: x\n", '6: the key true is not a string; write "true"'),
        ("v:\n  ~: x\n", '6: the key ~ is not a string; write "~"'),
        ("v:\n  ? [a]\n  : x\n", "6: a key must be a string"),
        ("v: .nan\n", "5: .nan does not exist in JSON"),
        ("v: -.Inf\n", "5: -.Inf does not exist in JSON"),
        ("v: 1e400\n", "5: the number 1e400 is too large"),
        ("v: 9223372036854775808\n", "5: the number does not fit into 64 bits"),
        ("v: 1" + "0" * 5000 + "\n", "5: the number does not fit into 64 bits"),
        ("v: 0xFFFFFFFFFFFFFFFF\n", "5: the number does not fit into 64 bits"),
        ("v: !!binary aGk=\n", "5: the tag !!binary is not supported"),
        ("v: !!python/object:os.system x\n", "5: the tag !!python/object:os.system is not supported"),
        ("v: !mine {}\n", "5: the tag !mine is not supported"),
        ("v: !!set {a}\n", "5: the tag !!set is not supported"),
        ("v: *a\n", "5: the alias *a has no anchor in this document"),
        ("v: &a [*a]\n", "5: the alias *a is within its own anchor"),
        ("v: a: b\n", "5: mapping values are not allowed in this context"),
        ("v: [1\nw: 2\n", "6: "),
        ("v:\n\t- a\n", "6: found a tab character that cannot start any token"),
        (
            "v: 'a\nw: 1\n",
            f"6: found unexpected end of stream (while scanning a quoted scalar that begins at {PLACE}5)",
        ),
        ("v: \x01\n", "5: the character U+0001 is not allowed in YAML"),
        ("v: é\n\nw: \x7f\n", "7: the character U+007F is not allowed in YAML"),
        ("v:\n  <<: 3\n", "6: << needs a mapping"),
        ("v: " + "[" * 200 + "]" * 200 + "\n", "5: the file is nested deeper than 100 levels"),
    ],
)
def test_yaml_that_parsers_could_read_differently_is_an_error_with_its_line(text: str, message: str) -> None:
    found = problem(HEAD + text)
    assert message in found
    assert found.startswith(PLACE + message.partition(":")[0])


def test_a_yaml_error_shows_the_line_of_the_template() -> None:
    found = problem(HEAD + "labels: {{ spec.l | to_yaml }}\n", {"l": {"a": "b"}})
    line = "labels: {{ spec.l | to_yaml }}"
    hint = "write {{ x }} without to_yaml: a mapping stays one"
    assert found == f"{PLACE}5: mapping values are not allowed in this context: {line}; {hint}"


def test_a_yaml_error_in_a_secret_shows_nothing_of_it() -> None:
    found = problem("apiVersion: v1\nkind: Secret\nstringData: a: s3cret\n")
    assert found == f"{PLACE}3: mapping values are not allowed in this context; put a value with a colon into quotes"


def test_an_alias_bomb_is_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "nodes with its aliases expanded" in problem(HEAD + "\n".join(lines))


def test_anchors_aliases_and_merges_work() -> None:
    text = (
        "base: &base\n  a: 1\n  b: {{ spec.b }}\nv:\n  <<: *base\n  b: 3\nw: *base\n"
        "x:\n  !!merge <<: [{a: 9}, *base]\n  c: 1\n'y':\n  '<<': 1\n"
    )
    body = document(HEAD + text, {"b": ": "}).body
    assert body["v"] == {"a": 1, "b": 3}
    assert body["w"] == {"a": 1, "b": ": "}
    assert body["x"] == {"a": 9, "b": ": ", "c": 1}
    assert body["y"] == {"<<": 1}


def test_anchors_end_with_their_document() -> None:
    found = rendered({"a.yaml": f"{HEAD}v: &a 1\n---\n{HEAD}v: 2\n"})
    assert [document.body["v"] for document in found.documents] == [1, 2]


def test_several_documents_lists_and_nothing() -> None:
    text = (
        "---\n# nothing\n---\n" + HEAD + "---\n"
        "apiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: A, metadata: {name: a}}\n- {{ spec.m }}\n...\n---\nnull\n"
    )
    result = rendered({"a.yaml.j2": text}, {"m": {"apiVersion": "v1", "kind": "B", "metadata": {"name": "b"}}})
    assert result.problems == ()
    assert [(document.body["kind"], document.location.line) for document in result.documents] == [
        ("ConfigMap", 4),
        ("A", 12),
        ("B", 13),
    ]


@pytest.mark.parametrize(
    "text", ["", "\n", "# comment\n", "---\n", "{% if false %}\na: 1\n{% endif %}\n", "{# c #}", "{{ none }}"]
)
def test_an_empty_render_is_no_manifest(text: str) -> None:
    result = rendered({"a.yaml.j2": text, "b.yaml": ""})
    assert (result.documents, result.problems) == ((), ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("just text\n", "1: a manifest must be a mapping, and this is a string"),
        ("- a\n", "1: a manifest must be a mapping, and this is a list"),
        ("a: 1\n", "1: apiVersion is missing"),
        ("kind: A\napiVersion: 1\n", "2: apiVersion must be a string, and this is a number"),
        ("apiVersion: v1\nkind:\n", "2: kind is missing"),
        ("apiVersion: v1\nkind: ''\n", "2: kind is empty"),
        ("apiVersion: v1\nkind: A\n", "1: metadata must be a mapping, and this is null"),
        ("apiVersion: v1\nkind: A\nmetadata:\n  labels: {}\n", "3: metadata.name is missing"),
        ("apiVersion: v1\nkind: A\nmetadata:\n  generateName: a-\n", "3: metadata.name is missing; generateName can't"),
        ("apiVersion: v1\nkind: A\nmetadata:\n  name: 5\n", "4: metadata.name must be a string, and this is a number"),
        (HEAD + "  namespace: 5\n", "5: metadata.namespace must be a string"),
        (HEAD + "  labels: [a]\n", "5: metadata.labels must be a mapping, and this is a list"),
        (
            HEAD + "  labels:\n    a: 1.0\n",
            "6: metadata.labels.a must be a string, and this is a number; write it in quotes",
        ),
        (
            HEAD + "  annotations:\n    a.b/c: true\n",
            "6: metadata.annotations[a.b/c] must be a string, and this is true or false",
        ),
        ("apiVersion: v1\nkind: List\nitems: 3\n", "3: items of a List must be a list"),
    ],
)
def test_a_document_that_is_no_manifest_is_an_error_with_its_line(text: str, message: str) -> None:
    assert problem(text).startswith(PLACE + message)


def test_a_document_of_the_wrong_shape_leaves_its_neighbours_alone() -> None:
    result = rendered({"a.yaml.j2": f"{HEAD}---\na: 1\n---\n{HEAD}", "b.yaml": HEAD})
    assert len(result.documents) == 3
    (problem,) = map(str, result.problems)
    assert problem.startswith(f"{PLACE}6: apiVersion is missing, and so is kind; remove a --- too many above it")


def test_one_failed_file_hides_no_other_and_all_errors_are_reported() -> None:
    files = {"a.yaml.j2": "a: {{ spec.x }}\n", "b.yaml.j2": "b: [\n", "c.yaml.j2": HEAD, "d.yaml.j2": "d: 1\n"}
    result = rendered(files)
    assert len(result.documents) == 1
    assert [found.location.file for found in result.problems if found.location] == [
        f"echoes.example.com/{name}.yaml.j2" for name in "abd"
    ]
    assert not result.complete


def test_the_order_of_keys_is_kept() -> None:
    assert list(field("v: {z: 1, a: 2, m: 3}\n")) == ["z", "a", "m"]
    assert list(field("v: {{ spec.m }}\n", {"m": {"z": 1, "a": 2}})) == ["z", "a"]


def test_two_renders_are_equal_and_do_not_share_what_can_be_changed() -> None:
    compiled = templates({"a.yaml.j2": HEAD + "v: {a: [1]}\nw: {{ spec.w }}\n", "b.yaml": HEAD + "v: {a: [1]}\n"})
    owner = parent({"w": {"x": [1]}})
    for first, second in zip(render(compiled, owner).documents, render(compiled, owner).documents, strict=True):
        assert first.body == second.body
        first.body["v"]["a"].append(2)
        assert second.body["v"]["a"] == [1]
    (found, _) = render(compiled, owner).documents
    found.body["w"]["x"].append(2)
    assert owner["spec"]["w"] == {"x": [1]}


def keys_read(monkeypatch: pytest.MonkeyPatch, fields: int) -> int:
    """The keys that are read to find the line of each field of a manifest."""
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n" + "".join(
        f" k{n}: x\n" for n in range(fields)
    )
    (found,) = objects(text, "a.yaml")
    read, build = 0, nodes._build_key

    def counted(*arguments: Any) -> Any:
        nonlocal read
        read += 1
        return build(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(nodes, "_build_key", counted)
        lines = [found.location_of(("data", f"k{n}")).line for n in range(fields)]
    assert lines == list(range(5, 5 + fields))
    return read


def test_the_lines_of_all_fields_are_found_in_a_time_in_proportion_to_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert keys_read(monkeypatch, 400) < 3 * keys_read(monkeypatch, 200)


@pytest.mark.parametrize("number", ["9223372036854775808", ".nan", "1e400"])
def test_a_number_that_no_manifest_may_have_is_a_problem_of_its_document_alone(number: str) -> None:
    text = manifest("ConfigMap", "a", "v: {{ 1 }}\n") + "---\n" + manifest("ConfigMap", "b", f"v: [{number}]\n")
    found = rendered({"a.yaml.j2": f"{text}---\n{manifest('ConfigMap', 'c')}"})
    assert [each.body["metadata"]["name"] for each in found.documents] == ["a", "c"]
    (problem,) = found.problems
    assert str(problem.location).endswith("a.yaml.j2:11")
