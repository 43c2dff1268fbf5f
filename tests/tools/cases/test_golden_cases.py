"""Golden cases: how they are read, updated and captured, without anything of a Secret."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.objects.live_object import LiveObject
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.reconcile.secrets.content_fields import NO_CONTENT, HiddenPaths, hidden_in_live
from ssa_operator.tools.cases.golden_cases import (
    differences,
    find_cases,
    load_project,
    read_case,
    render_case,
    update_case,
)
from ssa_operator.tools.plan.secret_mask import SecretMask
from tests.packaging.checkout import ROOT

PARENT = "apiVersion: example.com/v1\nkind: Echo\nmetadata: {name: hello}\nspec: {text: a}\n"
TEMPLATE = """apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}"}
data: {text: "{{ spec.text }}"}
"""
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {clusterIP: 10.0.0.7}\n"
CHILD = "apiVersion: v1\nkind: {kind}\nmetadata: {name: s}\n---\n"


def project(root: Path, template: str = TEMPLATE, **files: str) -> Path:
    """The folder of a case with these files, in a project of one template."""
    folder = root / "templates" / "echoes.example.com"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.yaml.j2").write_text(template)
    case = root / "tests" / "echoes.example.com" / "one"
    case.mkdir(parents=True, exist_ok=True)
    for name, text in {"parent.yaml": PARENT, **files}.items():
        (case / name).write_text(text)
    return case


def update(case: Path) -> list[str]:
    """The names of the files that an update writes."""
    root = case.parents[2]
    return [path.name for path in update_case(case, load_project([root / "templates"], [root / "crds"]))]


def differing(case: Path) -> dict[str, str]:
    """The diff of each file that differs."""
    root = case.parents[2]
    read = read_case(case)
    found = differences(read, render_case(read, load_project([root / "templates"], [root / "crds"])), b"")
    return {each.path.name: "\n".join(each.diff) for each in found}


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"child.yaml": ""}, "child.yaml:1: is no file of a case; did you mean children.yaml?"),
        ({"parent.yaml": "a: [\n"}, "parent.yaml:1: did not find expected node content"),
        ({"parent.yaml": PARENT + "---\n" + PARENT}, "parent.yaml:1: holds 2 objects"),
        ({"children.yaml": "\nkind: Pod\n"}, "children.yaml:2: "),
        ({"expected.yaml": "a: 1\na: 2\n"}, "expected.yaml:2: the key a is there twice"),
        ({"status.yaml": "- a\n"}, "status.yaml:1: must be a mapping"),
        ({"now.txt": "noon\n"}, "now.txt:1: 'noon' is no time; write it as 2026-01-31T12:00:00Z"),
    ],
)
def test_a_fault_of_a_case_has_its_file_and_line(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(CommandError) as error:
        read_case(project(tmp_path, **files))
    assert f"{tmp_path}/tests/echoes.example.com/one/{message}" in str(error.value)
    assert error.value.code == 2


def test_a_case_without_a_parent_is_invalid(tmp_path: Path) -> None:
    case = project(tmp_path)
    (case / "parent.yaml").unlink()
    with pytest.raises(CommandError, match=r"parent\.yaml:1: is missing; a case needs one parent"):
        read_case(case)


def test_cases_of_a_folder_without_templates_are_not_skipped_in_silence(tmp_path: Path) -> None:
    project(tmp_path)
    with pytest.raises(
        CommandError, match=r"no template folder echoes\.example\.com; did you mean echos\.example\.com"
    ):
        find_cases(tmp_path / "tests", ["echos.example.com"])


def test_an_update_writes_what_differs_and_no_empty_file(tmp_path: Path) -> None:
    case = project(tmp_path)
    assert update(case) == ["expected.yaml"]
    assert update(case) == []
    assert sorted(path.name for path in case.iterdir()) == ["expected.yaml", "parent.yaml"]


def test_an_update_removes_what_is_no_longer_expected(tmp_path: Path) -> None:
    case = project(tmp_path, TEMPLATE.replace("spec.text", "lookup('v1', 'Service', 's').spec.clusterIP"))
    assert update(case) == ["waits.txt"]
    project(tmp_path, TEMPLATE)
    assert update(case) == ["expected.yaml", "waits.txt"]
    assert not (case / "waits.txt").exists()


def test_comments_quotes_and_the_order_of_keys_make_no_difference(tmp_path: Path) -> None:
    expected = "# Of the parent.\nkind: 'ConfigMap'\napiVersion: v1\ndata: {text: a}\nmetadata: {name: hello}\n"
    case = project(tmp_path, **{"expected.yaml": expected})
    assert differing(case) == {}
    assert update(case) == []
    assert (case / "expected.yaml").read_text() == expected


def test_another_type_is_a_difference(tmp_path: Path) -> None:
    template = TEMPLATE.replace('"{{ spec.text }}"', "{{ spec.text }}")
    case = project(tmp_path, template)
    update(case)
    project(tmp_path, template, **{"parent.yaml": PARENT.replace("text: a", "text: 1")})
    assert update(case) == ["expected.yaml"]
    project(tmp_path, template, **{"parent.yaml": PARENT.replace("text: a", "text: '1'")})
    assert "-  text: 1\n+  text: '1'" in differing(case)["expected.yaml"]


def test_only_a_child_answers_child_and_every_object_answers_lookup(tmp_path: Path) -> None:
    template = CHILD.replace("{kind}", "Service") + TEMPLATE
    template = template.replace("spec.text", "child('Service', 's').spec.clusterIP | default('none')")
    case = project(tmp_path, template, **{"others.yaml": SERVICE})
    assert "+  text: none" in differing(case)["expected.yaml"]
    (case / "others.yaml").rename(case / "children.yaml")
    assert "+  text: 10.0.0.7" in differing(case)["expected.yaml"]
    looked_up = template.replace("child('Service', 's')", "lookup('v1', 'Service', 's')")
    project(tmp_path, looked_up)
    assert "+  text: 10.0.0.7" in differing(case)["expected.yaml"]


def test_an_object_that_is_given_twice_is_an_error(tmp_path: Path) -> None:
    case = project(tmp_path, **{"others.yaml": SERVICE, "children.yaml": SERVICE})
    with pytest.raises(CommandError, match=r"others\.yaml:1: Service default/s is given twice"):
        differing(case)


def test_the_time_decides_what_expired_says(tmp_path: Path) -> None:
    template = TEMPLATE.replace("spec.text", "expired('1h')")
    parent = PARENT.replace("{name: hello}", "{name: hello, creationTimestamp: '2026-01-01T00:00:00Z'}")
    case = project(tmp_path, template, **{"parent.yaml": parent, "now.txt": "2026-01-01T00:59:59Z\n"})
    assert "+  text: 'false'" in differing(case)["expected.yaml"].lower()
    (case / "now.txt").write_text("2026-01-01T02:00:01+01:00\n")
    assert "+  text: 'true'" in differing(case)["expected.yaml"].lower()


def test_generated_values_are_the_same_each_time(tmp_path: Path) -> None:
    template = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: '{{ generated() }}'}\n"
    case = project(tmp_path, template)
    assert update(case) == ["expected.yaml"]
    assert update(case) == []


def test_a_diff_shows_no_content_of_a_secret(tmp_path: Path) -> None:
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {password: aHVudGVyMi1odW50ZXIy}\n"
    password = "{{ child('Secret', 's').data.password | b64decode }}"
    template = (
        CHILD.replace("{kind}", "Secret")
        + "apiVersion: v1\nkind: Secret\nmetadata: {name: c}\n"
        + f'stringData: {{own: swordfish-1, password: "{password}"}}\n---\n'
        + "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: u}\n"
        + f'data: {{url: "x://{password}@host"}}\n'
    )
    case = project(tmp_path, template, **{"children.yaml": secret})
    update(case)
    (case / "children.yaml").write_text(secret.replace("aHVudGVyMi1odW50ZXIy", "aHVudGVyMy1odW50ZXIz"))
    expected = (case / "expected.yaml").read_text()
    (case / "expected.yaml").write_text(expected.replace("swordfish-1", "swordfish-0"))
    diff = differing(case)["expected.yaml"]
    assert "-  own: (hash " in diff
    assert "-  password: (hash " in diff
    assert "+  url: (hash " in diff
    for content in ("swordfish", "hunter2", "hunter3", "aHVudGVy"):
        assert content not in diff


def test_nothing_is_written_if_the_templates_do_not_load(tmp_path: Path) -> None:
    case = project(tmp_path, TEMPLATE + "{% if %}\n")
    with pytest.raises(CommandError, match=r"a\.yaml\.j2:5: "):
        update(case)
    assert [path.name for path in case.iterdir()] == ["parent.yaml"]


def test_a_parent_of_another_folder_is_an_error(tmp_path: Path) -> None:
    case = project(tmp_path, **{"parent.yaml": PARENT.replace("kind: Echo", "kind: Shop")})
    with pytest.raises(CommandError, match=r"parent\.yaml:1: no templates for Shop\.example\.com hello"):
        update(case)


def test_a_parent_that_looks_itself_up_finds_itself(tmp_path: Path) -> None:
    own = "lookup('example.com/v1', 'Echo', name).spec.text"
    case = project(tmp_path, TEMPLATE.replace("spec.text", own))
    assert "+  text: a" in differing(case)["expected.yaml"]


def test_a_child_of_the_case_in_another_namespace_is_the_parents_own(tmp_path: Path) -> None:
    far = TEMPLATE.replace("{{ name }}", "s").replace('"s"}', "s, namespace: far}")
    child = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: s, namespace: far}\n"
    case = project(tmp_path, far, **{"children.yaml": child})
    (tmp_path / "templates" / "echoes.example.com" / "_settings.yaml").write_text("clusterScope: true\n")
    assert update(case) == ["expected.yaml"]


def test_a_parent_that_the_api_server_refuses_is_an_error_with_its_line(tmp_path: Path) -> None:
    case = project(tmp_path, **{"parent.yaml": PARENT.replace("text: a", "replicas: many")})
    (tmp_path / "crds").mkdir()
    (tmp_path / "crds" / "echo.yaml").write_text((ROOT / "crds" / "echoes.example.com.yaml").read_text())
    with pytest.raises(CommandError, match=r"parent\.yaml:4: Echo hello is invalid: spec\.replicas"):
        update(case)


def secret(**data: str) -> dict[str, Any]:
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "n"},
        "data": encoded,
        "type": "Opaque",
    }


def masked(body: dict[str, Any], hidden: HiddenPaths = frozenset(), public: str = "") -> dict[str, Any]:
    live = LiveObject.of(body)
    return SecretMask(public=frozenset(public.replace(".", " ").split())).masked(
        live, hidden_in_live(live, NO_CONTENT) | hidden
    )


def decoded(body: dict[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in body["data"].items()}


def test_stand_ins_do_not_tell_which_entries_are_equal() -> None:
    found = masked(secret(a="swordfish-1", b="swordfish-2", c="swordfish-1"))
    assert decoded(found) == {"a": "masked-1", "b": "masked-2", "c": "masked-3"}
    assert (found["type"], found["metadata"]) == ("Opaque", {"name": "s", "namespace": "n"})


def test_json_keeps_its_structure_and_the_names_that_templates_mention() -> None:
    config = {"auths": {"registry.example.com": {"username": "gordon-shumway", "id": 7, "tags": ["tag-number-1"]}}}
    body = secret(config=json.dumps(config))
    assert json.loads(decoded(masked(body, public="{{ x.auths }} username id tags"))["config"]) == {
        "auths": {"masked-1": {"username": "masked-2", "id": "masked-3", "tags": ["masked-4"]}}
    }


def test_a_field_of_another_object_that_holds_content_has_a_stand_in() -> None:
    url = "https://robot:correct-horse-battery-7@host"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"url": url, "b": url}}
    assert masked(body, frozenset({("data", "url")}))["data"] == {"url": "masked-1", "b": url}
