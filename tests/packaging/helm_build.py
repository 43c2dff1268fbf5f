"""The program helm, for the chart and for what reads charts. It needs Go."""

from __future__ import annotations

from pathlib import Path

from tests.go_programs import CACHE, build_once, go_build, required_version

MODULE = Path(__file__).parent / "helm"


def helm_program() -> Path:
    """The program helm, built once from its Go module and kept in the cache of the user."""
    program = CACHE / "helm" / required_version(MODULE, "helm.sh/helm/v3") / "helm"
    return build_once(program, lambda new: go_build(MODULE, new, "helm.sh/helm/v3/cmd/helm"))
