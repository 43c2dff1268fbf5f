"""The program helm, for the chart and for what reads charts. It needs Go."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

MODULE = Path(__file__).parent / "helm"


def helm_program() -> Path:
    """The program helm, built once from its Go module and kept in the cache of the user."""
    pinned = re.search(r"helm\.sh/helm/v3 v(\S+)", (MODULE / "go.mod").read_text())
    assert pinned
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    program = cache / "ssa-operator" / "helm" / pinned[1] / "helm"
    if not program.exists():
        new = program.with_name(f"helm.{os.getpid()}")
        environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}
        build = ["go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(new)]
        subprocess.run([*build, "helm.sh/helm/v3/cmd/helm"], cwd=MODULE, env=environment, check=True)
        new.rename(program)
    return program
