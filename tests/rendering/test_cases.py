"""The golden cases of the project, of the examples, and of `tests/cases`, which have templates of their own."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from ssa_operator.objects.cluster_view import OfflineClusterView
from ssa_operator.objects.render_result import Rendered
from ssa_operator.rendering.jinja.coverage import TemplateCoverage
from ssa_operator.rendering.possible_manifests import template_contents
from ssa_operator.rendering.render import render_traced
from ssa_operator.tools.cases.golden_cases import (
    CASES,
    CaseProject,
    differences,
    find_cases,
    load_project,
    read_case,
    render_case,
)

ROOT = Path(__file__).parent.parent.parent
PROJECTS = [
    ROOT,
    *sorted(path.parent for path in ROOT.glob("examples/*/templates")),
    *sorted(path.parent for path in ROOT.glob("tests/cases/*/templates")),
]


@functools.cache
def load(project: Path) -> CaseProject:
    return load_project([project / "templates"], [project / "crds"])


PATHS = [
    path.relative_to(ROOT)
    for project in PROJECTS
    for path in find_cases(project / CASES, load(project).sources.folders)
]


@pytest.mark.more_cases
@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_case_renders_what_it_expects(path: Path) -> None:
    case = read_case(ROOT / path)
    output = render_case(case, load(case.path.parent.parent.parent))
    assert [line for each in differences(case, output, b"") for line in each.diff] == []
    # A traced render gives the same, and the syntax trees know every kind that is rendered.
    rendered, observed = output.rendered, output.rendered.observed
    view = OfflineClusterView(
        now=case.now,
        cluster_scoped=frozenset(kind for kind, state in observed.children.kinds.items() if not state.namespaced),
        objects={identity: live.body for identity, live in observed.children.objects.items()},
        children=frozenset(each.identity for each in case.children),
        namespace=observed.parent.identity.namespace,
    )
    traced = render_traced(rendered.folder, observed.parent.body, view)
    assert {*_shown(rendered.rendered)} <= {*_shown(traced)}
    possible = {manifest.group_kind for manifest in template_contents(rendered.folder).manifests}
    assert {document.identity.group_kind for document in rendered.rendered.documents} <= possible


@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_every_template_folder_has_a_case(project: Path) -> None:
    folders = load(project).sources.folders
    assert {path.parent.name for path in find_cases(project / CASES, folders)} == folders.keys()


@pytest.mark.more_cases
@pytest.mark.parametrize("project", PROJECTS, ids=lambda project: project.name)
def test_coverage_changes_no_render(project: Path) -> None:
    coverage = TemplateCoverage()
    measured = load_project([project / "templates"], [project / "crds"], coverage=coverage)
    for path in find_cases(project / CASES, measured.sources.folders):
        case = read_case(path)
        assert differences(case, render_case(case, measured), b"") == []
    assert all(each.reached for each in coverage.files())


def _shown(result: Rendered) -> list[str]:
    """A render's documents and waits, each with its line and its dependencies."""
    documents = [(document.location, document.body, document.dependencies) for document in result.documents]
    waits = [(wait.location, wait, wait.dependencies) for wait in result.waits]
    return [
        f"{location}: {what} {[(each.query, each.awaited, each.after) for each in dependencies]}"
        for location, what, dependencies in (*documents, *waits)
    ]
