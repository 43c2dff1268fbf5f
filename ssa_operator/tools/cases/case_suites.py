"""Finds the golden cases that a user names, and runs them.

Promises:
- A user names a project, its templates, its cases, the cases of one template folder, or one case.
- An invalid case is reported, and all others run.
- If an argument names something that does not exist, that is an error, so that a typo is never a success.
"""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from ssa_operator.objects.messages import did_you_mean
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.folder_settings import RESOURCE_NAME
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.jinja.coverage import TemplateCoverage
from ssa_operator.tools.cases.case_runs import (
    CaseProject,
    FileDifference,
    differences,
    load_project,
    render_case,
    write,
)
from ssa_operator.tools.cases.golden_cases import CASES, INVALID, PARENT, case_name, find_cases, read_case
from ssa_operator.tools.offline.project_folders import crds_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Cases that the same templates render."""

    templates: tuple[Path, ...]
    """The templates folders."""
    crds: tuple[Path, ...]
    installation: Installation
    folder: str = ""
    """The only template folder whose cases run; '' for all."""
    case: str = ""
    """The name of the only case; '' for all."""
    coverage: TemplateCoverage | None = field(default=None, compare=False)
    """Records what the cases reach."""

    @property
    def cases(self) -> tuple[Path, ...]:
        """The folders `tests`."""
        return tuple(dict.fromkeys(templates.parent / CASES for templates in self.templates))


class CaseState(StrEnum):
    """The result of a case."""

    PASSED = "passed"
    UPDATED = "updated"
    DIFFERS = "differs"
    INVALID = "invalid"


class CaseResult(Struct, frozen=True, kw_only=True):
    """The result of a case."""

    path: Path
    state: CaseState
    differences: tuple[FileDifference, ...] = ()
    """The files that differ, or that were updated."""
    problem: str = ""
    """Why the case could not be run."""
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return case_name(self.path)


def find_suites(
    folders: Sequence[str], templates: Sequence[Path], crds: Sequence[Path] | None, installation: Installation
) -> list[Suite]:
    """The suites that the arguments name; without arguments that of the templates folders. Raises CommandError."""
    default = Suite(
        templates=tuple(templates),
        crds=tuple(crds_of(templates, crds)),
        installation=installation,
    )
    if not folders:
        return [default]
    return list(dict.fromkeys(_find_suite(folder, default, crds) for folder in folders))


def _find_suite(argument: str, default: Suite, crds: Sequence[Path] | None) -> Suite:
    if not Path(argument).is_dir():
        if any((templates / argument).is_dir() for templates in default.templates):
            return replace(default, folder=argument)
        if any((cases / argument).is_dir() for cases in default.cases):
            argument = str(next(cases / argument for cases in default.cases if (cases / argument).is_dir()))
        else:
            raise CommandError(
                f"{argument} is no folder of golden cases; name a project, a template folder or a case", code=INVALID
            )
    path = Path(argument).resolve()
    root, folder, case = _place(path, {each.resolve() for each in default.templates})
    if root is None:
        raise CommandError(f"{argument} has no templates folder, and there is none beside it", code=INVALID)
    templates = _shown(root)
    own = tuple(crds_of([templates], crds))
    return replace(default, templates=(templates,), crds=own, folder=folder, case=case)


def _place(path: Path, known: Iterable[Path]) -> tuple[Path | None, str, str]:
    """The templates folder, the name of the template folder, and the case that a folder means."""

    def is_templates(folder: Path) -> bool:
        return folder in known or (folder.name == "templates" and folder.is_dir())

    def beside(cases: Path) -> Path | None:
        found = [each for each in known if each.parent == cases.parent] or [cases.parent / "templates"]
        return found[0] if cases.name == CASES and found[0].is_dir() else None

    if (path / PARENT).exists() and (root := beside(path.parent.parent)):
        return root, path.parent.name, path.name
    if is_templates(path):
        return path, "", ""
    if is_templates(path.parent) and RESOURCE_NAME.fullmatch(path.name):
        return path.parent, path.name, ""
    if (path / "templates").is_dir():
        return path / "templates", "", ""
    if root := beside(path):
        return root, "", ""
    if root := beside(path.parent):
        return root, path.name, ""
    return None, "", ""


def _shown(path: Path) -> Path:
    """The path as a user would write it: relative if it is below the current folder."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def run_suites(
    suites: Sequence[Suite],
    names: Sequence[str] = (),
    *,
    update: bool = False,
    salt: bytes = b"",
) -> list[CaseResult]:
    """Run the cases of the suites whose names match, all without `names`. Raises CommandError if there is none."""
    results: dict[Path, CaseResult] = {}
    seen: list[str] = []
    for suite in suites:
        project = load_suite(suite)
        for path in suite_cases(suite, project):
            name = case_name(path)
            seen.append(name)
            if path not in results and (not names or any(_matches(name, each) for each in names)):
                results[path] = run_case(path, project, update=update, salt=salt)
    if not results:
        raise CommandError(_nothing_found(suites, names, seen), code=INVALID)
    return list(results.values())


def load_suite(suite: Suite) -> CaseProject:
    """The templates and CRDs of a suite. Raises CommandError for an invalid CRD."""
    return load_project(suite.templates, suite.crds, suite.installation, suite.coverage)


def suite_cases(suite: Suite, project: CaseProject) -> list[Path]:
    """The cases of a suite. Raises CommandError if the templates folder can't be read, or has no templates for some."""
    if project.sources.problems and not project.sources.folders:
        raise CommandError("\n".join(map(str, project.sources.problems)), code=INVALID)
    found = [path for cases in suite.cases for path in find_cases(cases, project.sources.folders)]
    return [path for path in found if suite.folder in ("", path.parent.name) and suite.case in ("", path.name)]


def _matches(name: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(name.partition("/")[2], pattern)


def _nothing_found(suites: Sequence[Suite], names: Sequence[str], seen: Sequence[str]) -> str:
    if names and seen:
        short = [name.partition("/")[2] for name in seen]
        hint = did_you_mean(names[0], [*seen, *short], "test without --case runs all")
        return f"there is no case {' or '.join(names)}; {hint}"
    where = " or ".join(str(cases / (suite.folder or "<plural>.<group>")) for suite in suites for cases in suite.cases)
    return f"there are no golden cases; capture one, or write parent.yaml into a folder {where}/<case>"


def run_case(path: Path, project: CaseProject, *, update: bool = False, salt: bytes = b"") -> CaseResult:
    """Run one case; with `update`, write the expected files that differ."""
    began = time.perf_counter()
    try:
        case = read_case(path)
        found = tuple(differences(case, render_case(case, project), salt))
        if update:
            write(found)
    except CommandError as error:
        seconds = time.perf_counter() - began
        return CaseResult(path=path, state=CaseState.INVALID, problem=str(error), seconds=seconds)
    state = CaseState.PASSED
    if found:
        state = CaseState.UPDATED if update else CaseState.DIFFERS
    return CaseResult(path=path, state=state, differences=found, seconds=time.perf_counter() - began)
