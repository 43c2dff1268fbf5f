"""What starting the command line costs: told by the modules that are imported, which no busy machine changes."""

from __future__ import annotations

import subprocess
import sys

import pytest

_HEAVY = {
    "aiohttp",
    "cryptography",
    "jinja2",
    "kubernetes",
    "msgspec",
    "prometheus_client",
    "pydantic",
    "rich",
    "watchfiles",
    "yaml",
}
_SCRIPT = """
import sys
from ssa_operator.cli.main import main
sys.argv[0] = "ssa-operator"
try:
    main()
finally:
    print(*sorted(sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["run", "--help"], ["dev", "--help"], ["cluster", "--help"]]
)
def test_help_imports_nothing_that_only_the_work_needs(arguments: list[str]) -> None:
    run = subprocess.run([sys.executable, "-c", _SCRIPT, *arguments], capture_output=True, text=True, check=True)
    assert run.stdout
    imported = {name.partition(".")[0] for name in run.stderr.split()}
    assert "ssa_operator" in imported
    assert imported & _HEAVY == set()
