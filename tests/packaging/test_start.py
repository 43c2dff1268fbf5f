"""What starting the command line costs: told by the modules that are imported, which no busy machine changes."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from ssa_operator.cli.topics import MODULES

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


def workshop(modules: Iterable[str]) -> list[str]:
    """Those of the imported modules that a running operator has no use for."""
    rooms = ("ssa_operator.web", "ssa_operator.tools", "ssa_operator.devcluster")
    others = set(MODULES.values()) - {MODULES["run"]}
    return sorted(name for name in modules if name in others or name.startswith(rooms))


def test_run_is_registered_without_other_commands_and_what_commands_are_made_of() -> None:
    script = "import sys; from ssa_operator.cli.main import application_of as of; of(['run']); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = run.stdout.split()
    assert MODULES["run"] in imported
    assert workshop(imported) == []


@pytest.mark.exhaustive
def test_run_reads_no_certificate_authorities_of_the_system_at_its_start(tmp_path: Path) -> None:
    pipe = tmp_path / "authorities.pem"
    os.mkfifo(pipe)  # whoever opens it waits for ever
    run = subprocess.run(
        [sys.executable, "-m", "ssa_operator", "run", f"--templates={tmp_path / 'absent'}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "SSL_CERT_FILE": str(pipe)},
    )
    assert (run.returncode, "absent" in run.stderr) == (2, True), run.stderr


@pytest.mark.exhaustive
def test_an_operator_without_a_webhook_imports_nothing_of_it() -> None:
    script = (
        "import sys, ssa_operator.operator.process.session, ssa_operator.operator.http; print(*sorted(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    imported = run.stdout.split()
    assert "ssa_operator.operator.operator" in imported
    assert [name for name in imported if name == "cryptography" or "operator.admission" in name] == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "feature",
    [
        "ssa_operator.operator.rollouts",
        "ssa_operator.operator.shards",
        "ssa_operator.operator.conversion",
        "ssa_operator.operator.serving_certificate",
        "ssa_operator.rendering.conversions",
        "ssa_operator.rendering.jinja.coverage",
    ],
)
def test_an_operator_does_not_import_a_feature_that_is_off(feature: str) -> None:
    script = "import sys, ssa_operator.operator.process.session; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert [name for name in run.stdout.split() if name.startswith(feature)] == []


@pytest.mark.exhaustive
def test_an_operator_starts_without_what_comes_after_its_first_reconcile() -> None:
    later = {
        "aiohttp.web",
        "ssa_operator.operator.crd_installation",
        "ssa_operator.operator.http",
        "ssa_operator.operator.permissions.requests",
        "ssa_operator.schema.cel.syntax",
        "ssa_operator.rendering.possible_manifests",
        "watchfiles",
    }
    script = "import sys, ssa_operator.operator.process.session; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "ssa_operator.operator.operator" in run.stdout.split()
    assert later & set(run.stdout.split()) == set()


def test_the_garbage_collector_that_a_start_disables_runs_beside_the_operator() -> None:
    script = """
import asyncio, gc
from types import SimpleNamespace
from ssa_operator.operator.process.session import serve
async def run(_):
    print(gc.isenabled())
gc.disable()
asyncio.run(serve(SimpleNamespace(options=SimpleNamespace(listen=None, admission=None), run=run), asyncio.Event()))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout == "True\n"


def test_later_tls_contexts_trust_the_authorities_of_the_system() -> None:
    script = """
import ssl
from ssa_operator.operator.process.aiohttp_import import import_aiohttp
import_aiohttp()
print(len(ssl.create_default_context().get_ca_certs()))
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(run.stdout) == len(ssl.create_default_context().get_ca_certs())
