"""The exit codes of commands that compare, where there is no cluster to compare with."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from ssa_operator.cli.main import application_of
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools import command_target as cluster_target


@pytest.mark.parametrize("arguments", [("diff", "examples/echo.yaml"), ("plan",)])
def test_a_missing_kubeconfig_is_no_difference(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise CommandError("there is no kubeconfig")

    monkeypatch.setattr(cluster_target, "cluster_target", missing)
    result = CliRunner().invoke(application_of(), arguments)
    assert isinstance(result.exception, CommandError)
    assert (result.exception.code, str(result.exception)) == (2, "there is no kubeconfig")
