"""What `check` finds by rendering a project, in this process."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from ssa_operator.checks.findings import Finding
from ssa_operator.cli.check import KUBERNETES
from ssa_operator.cli.parent_files import read_objects
from ssa_operator.cli.target_schemas import bundled_schemas
from ssa_operator.cli.template_checks import Project, check_examples
from ssa_operator.cli.template_folders import crd_kinds, read_crds
from ssa_operator.rendering.folder.sources import load_all
from ssa_operator.rendering.jinja import environment
from ssa_operator.rendering.jinja.filters import FILTERS
from tests.cli.test_check import project


def findings(folder: Path) -> list[Finding]:
    definitions = read_crds([folder / "crds"])
    return check_examples(
        Project(
            sources=load_all([folder / "templates"]),
            kinds=crd_kinds(definitions),
            examples=read_objects([folder / "examples"]),
            now=0.0,
            schemas=bundled_schemas(KUBERNETES).with_crds(each.body for each in definitions),
        )
    )


def test_a_document_that_differs_in_each_render_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Templates have no filter that could do this.
    numbers = itertools.count()
    monkeypatch.setattr(environment, "FILTERS", {**FILTERS, "varying": lambda _: str(next(numbers))})
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: {{ name | varying }}\n"
    found = findings(project(tmp_path, varying=text))
    assert [(each.code, each.location and each.location.line) for each in found] == [("not-deterministic", 5)]
