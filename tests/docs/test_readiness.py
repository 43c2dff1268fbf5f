"""docs/readiness.md has the states, conditions and reasons that the code has, and the kinds with a rule."""

from __future__ import annotations

import re
from enum import StrEnum

import pytest

from ssa_operator.objects.readiness import RULES, ReadinessState
from ssa_operator.reconcile.child import FailureReason
from ssa_operator.reconcile.status.author_status import ConditionType
from ssa_operator.reconcile.status.verdict import ReadyReason
from ssa_operator.tools.editor.vocabulary import class_docs
from tests.packaging.checkout import ROOT

PAGE = (ROOT / "docs" / "readiness.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", [ReadinessState, ConditionType, ReadyReason, FailureReason])
def test_a_row_of_the_page_is_what_the_code_says(kind: type[StrEnum]) -> None:
    rows = [f"| `{member}` | {' '.join(doc.split())} |" for member, doc in zip(kind, class_docs(kind), strict=True)]
    assert [row for row in rows if f"\n{row}\n" not in PAGE] == []


def test_each_kind_with_a_rule_has_a_row() -> None:
    table = PAGE.partition("| kind | `Current` when |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| (\w+) ", table, re.MULTILINE)) == {kind.kind for kind in RULES}
