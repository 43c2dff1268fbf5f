"""Users with fewer permissions than the administrator, for operators that a test limits."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import yaml

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.auth import credentials
from tests.operator.harness import Desk

API = "rbac.authorization.k8s.io"

Rules = list[dict[str, Any]]

BASICS: Rules = [
    {"apiGroups": ["example.com"], "resources": ["echoes", "echoes/status", "echoes/finalizers"], "verbs": ["*"]},
]
"""The permissions that an operator needs to watch Echos and to write their status."""


def allowed(user: str, rules: Rules, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A Role in the test's namespace, and its binding to a user."""
    return _granted("Role", user, rules, name)


def allowed_everywhere(user: str, rules: Rules) -> tuple[dict[str, Any], dict[str, Any]]:
    """A ClusterRole, and its binding to a user, whose name both have."""
    return _granted("ClusterRole", user, rules, user)


def _granted(kind: str, user: str, rules: Rules, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    role = {"apiVersion": f"{API}/v1", "kind": kind, "metadata": {"name": name}, "rules": rules}
    binding = {
        "apiVersion": f"{API}/v1",
        "kind": f"{kind}Binding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": API, "kind": kind, "name": name},
        "subjects": [{"kind": "User", "name": user, "apiGroup": API}],
    }
    return role, binding


def limited(kubeconfig: Path, folder: Path, user: str) -> Path:
    """The administrator's kubeconfig with another user's permissions."""
    path = folder / f"{user}.kubeconfig"
    config = yaml.safe_load(kubeconfig.read_text())
    (administrator,) = config["users"]
    administrator["user"]["as"] = user
    path.write_text(yaml.safe_dump(config))
    return path


def with_token(kubeconfig: Path, folder: Path, token: str) -> Path:
    """The administrator's kubeconfig with a service account's token instead of the certificate."""
    config = yaml.safe_load(kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token.strip()}
    path = folder / "token.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@contextlib.asynccontextmanager
async def acting_as(user: str, desk: Desk, folder: Path) -> AsyncIterator[Client]:
    """A client with a user's permissions; its kubeconfig is in `folder`."""
    path = limited(desk.kubeconfig, folder, user)
    async with Client(await credentials.load(str(path), None)) as client:
        yield client
