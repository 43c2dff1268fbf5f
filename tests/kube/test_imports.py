"""In processes of their own: what is imported there is the question."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

LOAD = """
import asyncio, sys
from ssa_operator.kube.auth import credentials
asyncio.run(credentials.load(sys.argv[1]))
print([name for name in sys.modules if name.partition(".")[0] in ("kubernetes", "requests", "urllib3", "pydantic")])
"""


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.more_cases
@pytest.mark.parametrize(
    "user",
    [
        {"token": "t"},
        {
            "exec": {
                "apiVersion": "client.authentication.k8s.io/v1",
                "command": "printf",
                "args": [
                    '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}'
                ],
            }
        },
        {"auth-provider": {"name": "oidc", "config": {"id-token": "e30.eyJleHAiOjQwMDAwMDAwMDB9.x"}}},
    ],
    ids=["token", "exec", "auth-provider"],
)
def test_reading_credentials_does_not_import_the_official_client(tmp_path: Path, user: dict[str, object]) -> None:
    kubeconfig = {
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": "https://127.0.0.1:6443"}}],
        "users": [{"name": "here", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "here"}}],
    }
    (tmp_path / "kubeconfig").write_text(json.dumps(kubeconfig))
    assert run(LOAD, str(tmp_path / "kubeconfig")) == "[]"


def test_the_client_comes_without_jinja_without_yaml_and_without_the_official_client() -> None:
    program = (
        "import sys, ssa_operator.kube.api.client, ssa_operator.kube.watch.reflector, ssa_operator.kube.api.discovery;"
        "print([name for name in ('jinja2', 'yaml', 'kubernetes', 'rich', 'prometheus_client') if name in sys.modules])"
    )
    assert run(program) == "[]"
