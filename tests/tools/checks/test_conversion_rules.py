"""Mistakes in `_convert/`: each is a finding with its file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.operator.crd_files import schema_files
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.tools.checks.project_checks import CheckedFiles, find_problems
from ssa_operator.tools.schema_rules import bundled_schemas
from tests.operator.conversion.sites import SCHEMA, SITES, TO_V1, TO_V1ALPHA1, write

FORTH, BACK = f"{SITES}/_convert/v1alpha1-to-v1.yaml.j2", f"{SITES}/_convert/v1-to-v1alpha1.yaml.j2"


def check(templates: Path, *examples: Path) -> list[str]:
    """What `ssa-operator check` prints."""
    files = CheckedFiles(
        templates=[templates],
        installation=Installation(),
        crds=schema_files([templates]),
        examples=examples,
        schemas=bundled_schemas(KUBERNETES_VERSION),
    )
    found = [str(each).removeprefix(f"{templates}/") for each in find_problems(files)]
    return [each for each in found if "folder-without-example" not in each]


def test_conversions_that_give_all_back_have_no_finding(tmp_path: Path) -> None:
    assert check(write(tmp_path)) == []


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (
            "count: {{ spec.replicas.min | default(1) }}",
            "count: 5",
            f"{BACK}:1: warning lossy-conversion: spec.count of v1alpha1 has a place in v1, and doesn't come back",
        ),
        (
            "notes: {{ spec.notes }}",
            "notes: {}",
            f"{BACK}:1: warning lossy-conversion: spec.notes.example of v1 has a place in v1alpha1, and doesn't come",
        ),
        (
            "image: {{ spec.image }}",
            "image: {{ spec.imag }}",
            f"{BACK}:2: error undeclared-field: the CRD {SITES} in v1 declares no spec.imag; did you mean spec.image?",
        ),
        (
            "count: {{ spec.replicas.min | default(1) }}",
            "count: {{ spec.replicas.mim | default(1) }}",
            f"{BACK}:3: error undeclared-field: the CRD {SITES} in v1 declares no spec.replicas.mim; did you mean spec",
        ),
        (
            "count: {{ spec.replicas.min | default(1) }}",
            "coumt: {{ spec.replicas.min | default(1) }}",
            f"{BACK}:3: error unknown-field: there is no field spec.coumt; did you mean count?",
        ),
        (
            "count: {{ spec.replicas.min | default(1) }}",
            "count: {{ (spec.replicas.min | default(1)) // 3 * 3 }}",
            f"{BACK}:1: warning lossy-conversion: spec.count of v1alpha1 comes back from v1 with another value; write",
        ),
        (
            "count: {{ spec.replicas.min | default(1) }}",
            "count: -1",
            f"{BACK}:1: error conversion-failed: v1 to v1alpha1 gives an object that v1alpha1 refuses: spec.count: ",
        ),
        (
            "  image: {{ spec.image }}",
            "  image: {{ lookup('v1', 'ConfigMap', 'x').data.image }}",
            f"{BACK}:2: error template-error: a conversion can't read lookup; it sees only the object",
        ),
        ("spec:", "metadata: {uid: x}\nspec:", f"{BACK}:1: error conversion-failed: a conversion can't change metad"),
        ("spec:", "spec: {{", f"{BACK}:"),
    ],
)
def test_a_mistake_in_a_conversion_is_found(tmp_path: Path, before: str, after: str, expected: str) -> None:
    assert before in TO_V1ALPHA1
    found = check(write(tmp_path, to_v1alpha1=TO_V1ALPHA1.replace(before, after, 1)))
    assert [each for each in found if each.startswith(expected)], found
    if "-field" in expected:
        assert len(found) == 1, found


def test_an_example_that_comes_back_with_another_value_is_found(tmp_path: Path) -> None:
    schema = SCHEMA.replace("replicas:\n", "total: integer\n  replicas:\n").replace(
        "size: ", "amount: integer\n      size: "
    )
    templates = write(
        tmp_path,
        schema,
        TO_V1 + "  total: {{ (spec.amount | default(0)) // 10 * 10 }}\n",
        TO_V1ALPHA1 + "  amount: {{ spec.total | default(0) }}\n",
    )
    example = tmp_path / "site.yaml"
    example.write_text(
        "apiVersion: example.com/v1alpha1\nkind: Site\nmetadata: {name: web}\nspec: {image: a, amount: 12}\n"
    )
    found = check(templates, example)
    assert [each for each in found if "lossy-conversion: spec.amount of v1alpha1" in each], found


def test_a_loss_that_the_author_means_is_accepted(tmp_path: Path) -> None:
    text = "{# check: lossy-conversion, v1 has no such number #}\n" + TO_V1ALPHA1.replace(
        "{{ spec.replicas.min | default(1) }}", "5"
    )
    assert check(write(tmp_path, to_v1alpha1=text)) == []


def test_a_file_that_converts_nothing_is_found(tmp_path: Path) -> None:
    templates = write(tmp_path)
    folder = templates / SITES / "_convert"
    (folder / "_macros.yaml.j2").write_text("{% macro x() %}{% endmacro %}")
    (folder / "v1-to-v2.yaml.j2").write_text(TO_V1)
    (folder / "v1tov2.yaml.j2").write_text(TO_V1)
    found = check(templates)
    assert [each.split(": ", 2)[:2] for each in found] == [
        [f"{SITES}/_convert/v1-to-v2.yaml.j2:1", "warning ignored-file"],
        [f"{SITES}/_convert/v1tov2.yaml.j2:1", "error template-error"],
    ]
    (templates / FORTH).unlink()
    (refused,) = [each for each in check(templates) if "crd-refused" in each]
    assert re.search(rf"_schema.yaml:15: .*the fields of v1alpha1 differ .*; add .*/{FORTH}", refused)
