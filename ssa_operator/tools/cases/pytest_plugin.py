"""Golden cases as items of pytest.

Promises:
- The plugin collects nothing unless the ini option `ssa_operator_cases` is true.
- Each case below the collected folders is one item, named `parent.yaml::<case>`. Its failure is the diff, without a
  traceback.
- Each template folder is loaded once for a session.

Only pytest imports this module.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from _pytest._code.code import ExceptionInfo, TerminalRepr

    from ssa_operator.tools.cases.golden_cases import CaseProject

OPTION = "ssa_operator_cases"

_PROJECTS = pytest.StashKey[dict[Path, "CaseProject"]]()
_SALT = pytest.StashKey[bytes]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(OPTION, "Collect the golden cases of ssa-operator.", type="bool", default=False)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_PROJECTS] = {}
    config.stash[_SALT] = secrets.token_bytes(16)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A golden case, if the file is the parent of one and cases are wanted."""
    if file_path.name != "parent.yaml" or not parent.config.getini(OPTION):
        return None
    cases = file_path.parent.parent.parent
    if cases.name != "tests" or not (cases.parent / "templates" / file_path.parent.parent.name).is_dir():
        return None
    found: pytest.Collector = CaseFile.from_parent(parent, path=file_path)
    return found


class CaseFile(pytest.File):
    """The file `parent.yaml` of a case."""

    def collect(self) -> Iterator[pytest.Item]:
        yield CaseItem.from_parent(self, name=self.path.parent.name)


class CaseItem(pytest.Item):
    """A golden case."""

    def runtest(self) -> None:
        from ssa_operator.tools.cases.case_reports import difference_text
        from ssa_operator.tools.cases.golden_cases import CaseState, run_case

        case = self.path.parent
        result = run_case(case, self._project(case.parent.parent.parent), salt=self.config.stash[_SALT])
        if result.state is not CaseState.PASSED:
            raise CaseError(result.problem or difference_text(result))

    def _project(self, root: Path) -> CaseProject:
        from ssa_operator.tools.cases.golden_cases import load_project
        from ssa_operator.tools.offline.project import crds_of

        known = self.config.stash[_PROJECTS]
        if root not in known:
            templates = [root / "templates"]
            known[root] = load_project(templates, crds_of(templates, None))
        return known[root]

    def repr_failure(self, excinfo: ExceptionInfo[BaseException], style: Any = None) -> str | TerminalRepr:
        from ssa_operator.operator.process.streams import CommandError

        if isinstance(excinfo.value, CaseError | CommandError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, f"golden case {self.path.parent.parent.name}/{self.name}"


class CaseError(Exception):
    """A case differs from what it expects, or can't be run."""
