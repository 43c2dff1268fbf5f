"""The hooks for pre-commit start the command that they promise."""

from __future__ import annotations

import re

import yaml

from tests.operator.harness import ROOT


def test_each_hook_runs_check_once_for_a_change_of_templates_crds_or_examples() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [hook["entry"] for hook in hooks] == ["ssa-operator check", "ssa-operator check --fix"]
    for hook in hooks:
        assert hook["language"] == "python"
        assert hook["pass_filenames"] is False
        changed = ["templates/echoes.example.com/a.yaml.j2", "crds/a.yaml", "deploy/operator/examples/b.yaml"]
        assert all(re.search(hook["files"], path) for path in changed)
        assert not re.search(hook["files"], "README.md")
