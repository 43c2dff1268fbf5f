"""The text of a plan, and its words about the waves of a rollout."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.managed_fields import FieldOwner
from ssa_operator.objects.rollout_settings import Batch, Canary, RolloutSettings
from ssa_operator.operator.rollouts.rules import Member
from ssa_operator.reconcile.child import Result
from ssa_operator.reconcile.field_changes import ChangeCause
from ssa_operator.tools.plan.changes import ChangedField, ObjectChange
from ssa_operator.tools.plan.plan_summary import (
    NAMES,
    PlannedWaves,
    PlanSummary,
    data,
    markdown,
    styled_lines,
    table,
    text,
)

PARENT = Identity("example.com", "Echo", "default", "web")


def changed(name: str, after: str = "b", cause: ChangeCause = ChangeCause.TEMPLATE) -> ObjectChange:
    owners = (FieldOwner("kubectl", "Update", "scale"),) if cause is ChangeCause.TAKEN else ()
    field = ChangedField(field="data.a", before="a", after=after, cause=cause, owners=owners)
    identity = Identity("", "ConfigMap", "default", name)
    return ObjectChange(identity=identity, result=Result.CONFIGURED, fields=(field,))


def summary(*changes: ObjectChange) -> PlanSummary:
    return PlanSummary(objects=[(PARENT, change) for change in changes])


def test_equal_changes_are_one_entry_with_a_few_names() -> None:
    lines = text(summary(*(changed(f"c{number}") for number in range(NAMES + 3)), changed("other", "c"))).splitlines()
    assert "change ConfigMap: default/c0, default/c1, default/c2, default/c3, default/c4 and 3 more" in lines
    assert "change ConfigMap: default/other" in lines
    assert lines.count("  data.a: a -> b") == 1


def test_a_terminal_shows_changes_and_problems_in_the_colours_of_diff() -> None:
    found = summary(changed("c"))
    found.problems.append("a.yaml.j2:1: is wrong")
    styles = {line: style for line, style in styled_lines(found) if style}
    assert styles == {"change ConfigMap: default/c": "yellow", "  a.yaml.j2:1: is wrong": "bold red"}
    assert "\n".join(line for line, _ in styled_lines(found)) == text(found)


def test_a_value_that_is_taken_from_another_manager_names_it() -> None:
    assert "  data.a: a -> b (written by kubectl (scale))" in text(summary(changed("c", cause=ChangeCause.TAKEN)))


def test_no_value_ends_the_code_block_or_the_line_of_a_markdown_comment() -> None:
    found = summary(changed("c", after="```\n</details>"))
    found.problems.append("a | b <script>\nsecond line")
    comment = markdown(found)
    (problem,) = [line for line in comment.splitlines() if line.startswith("- ")]
    assert problem == "- a \\| b \\<script\\> second line"
    fence = next(line for line in comment.splitlines() if line.startswith("`"))
    assert fence == "````"
    assert comment.splitlines().count(fence) == 2
    # The value's line break is escaped, so it stays within its line of the block.
    assert 'data.a: a -> "```\\n</details>"' in comment


def test_a_plan_mentions_nobody() -> None:
    found = summary(changed("c", after="@octocat"))
    found.problems.append("no image registry.example/app@sha256:1 (for Echo default/web): @octocat, @org/team")
    found.notes.append("@octocat &#64;octocat")
    lines = markdown(found).splitlines()
    fences = [at for at, line in enumerate(lines) if line == "```"]
    # GitHub finds no names in a code block.
    outside = "\n".join(lines[: fences[0]] + lines[fences[1] :])
    assert outside.count("@") == outside.count("@&#8203;") == 4
    assert "\\&\\#64;octocat" in outside
    assert "data.a: a -> @octocat" in "\n".join(lines[fences[0] : fences[1]])


def test_the_counts_of_the_data_keep_their_names() -> None:
    assert {"created", "changed", "recreated", "pruned", "unchanged", "waiting", "failed"} <= data(summary()).keys()


def test_the_table_has_kinds_to_which_something_happens_and_results_that_there_are() -> None:
    found = PlanSummary()
    for kind, name in (("ConfigMap", "changed"), ("ConfigMap", "unchanged"), ("Secret", "unchanged")):
        found._count(GroupKind("", kind), name)
    assert table(found) == (
        ("KIND", "CHANGED", "UNCHANGED"),
        [["ConfigMap", "1", "1"], ["total", "1", "2"]],
    )
    assert table(PlanSummary()) == (("KIND",), [])


SETTINGS = RolloutSettings()
CANARIES = Canary(selector={"matchLabels": {"tier": "canary"}}, count=None)


def members(count: int, *, suspended: int = 0, canaries: int = 0) -> list[Member]:
    return [
        Member(
            uid=f"uid-{number}",
            name=f"p{number}",
            labels={"tier": "canary"} if number < canaries else {},
            suspended=number >= count,
        )
        for number in range(count + suspended)
    ]


@pytest.mark.parametrize(
    ("waves", "words"),
    [
        (PlannedWaves(SETTINGS, members(30)), "canary 1, then 10 batches of at most 3"),
        (PlannedWaves(SETTINGS, members(1)), "canary 1"),
        (PlannedWaves(SETTINGS, members(2, suspended=8)), "canary 1, then 1 batch of at most 1"),
        (
            PlannedWaves(replace(SETTINGS, canary=CANARIES, batch=Batch(5)), members(13, canaries=3)),
            "canaries 3, then 2 batches of at most 5",
        ),
        (
            PlannedWaves(SETTINGS, members(2), recreated=3),
            "canary 1, then 1 batch of at most 1; 3 recreations, more than maxPrune (0): it waits for `rollout resume`",
        ),
        (
            PlannedWaves(replace(SETTINGS, max_prune=4), members(2), recreated=3, pruned=1),
            "canary 1, then 1 batch of at most 1; 1 deletion and 3 recreations",
        ),
    ],
)
def test_a_plan_says_in_which_waves_a_change_reaches_the_parents(waves: PlannedWaves, words: str) -> None:
    assert str(waves) == words
