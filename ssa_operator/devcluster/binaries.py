"""The five programs of the control plane."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import platformdirs

from ssa_operator.devcluster.progress import Report


async def acquire(report: Report) -> Path:  # noqa: ARG001
    """The folder with the programs."""
    configured = os.environ.get("SSA_OPERATOR_CACHE_DIR")
    root = Path(configured) if configured else platformdirs.user_cache_path("ssa-operator")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return root / "control-plane" / f"kubernetes-1.36.3_etcd-3.6.8_kwok-0.8.0_{platform.system().lower()}-{machine}" / "bin"
