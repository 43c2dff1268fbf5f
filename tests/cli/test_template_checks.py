"""What `check` finds by rendering a project, in this process."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ssa_operator.checks.findings import Severity
from ssa_operator.cli.parent_files import read_objects
from ssa_operator.cli.target_schemas import bundled_schemas
from ssa_operator.cli.template_checks import Project, check_examples, check_templates
from ssa_operator.cli.template_folders import crd_kinds, read_crds
from ssa_operator.core.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.rendering.folder.sources import load_all
from ssa_operator.rendering.jinja import environment
from ssa_operator.rendering.jinja.filters import FILTERS
from tests.cli.test_check import project
from tests.controller.harness import ROOT


def project_in(folder: Path, examples: Path) -> Project:
    definitions = read_crds([folder / "crds"])
    return Project(
        sources=load_all([folder / "templates"]),
        kinds=crd_kinds(definitions),
        examples=read_objects([examples]),
        now=0.0,
        schemas=bundled_schemas(KUBERNETES_VERSION).with_crds(each.body for each in definitions),
    )


EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/templates"))


@pytest.mark.parametrize("folder", EXAMPLES, ids=[each.name for each in EXAMPLES])
def test_the_examples_have_no_errors(folder: Path) -> None:
    found = check_templates([folder / "templates"], project_in(folder, folder))
    assert [str(each) for each in found if each.severity is Severity.ERROR] == []
    assert not any(each.code == "folder-without-example" for each in found)


def test_a_document_that_differs_in_each_render_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Templates have no filter that could do this.
    numbers = itertools.count()
    monkeypatch.setattr(environment, "FILTERS", {**FILTERS, "varying": lambda _: str(next(numbers))})
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: {{ name | varying }}\n"
    folder = project(tmp_path, varying=text)
    found = check_examples(project_in(folder, folder / "examples"))
    assert [(each.code, each.location and each.location.line) for each in found] == [("not-deterministic", 5)]
