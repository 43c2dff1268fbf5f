"""The example gallery as the tests see it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "examples"
NAMES = sorted(path.name for path in GALLERY.iterdir() if path.is_dir())
RESOURCES = sorted(path.name for path in GALLERY.glob("*/templates/*"))


def arguments(names: Sequence[str] = NAMES) -> list[str]:
    """The options of `run` for these examples."""
    templates = [f"--templates={GALLERY / name / 'templates'}" for name in names]
    return templates + [f"--crds={folder}" for name in names if (folder := GALLERY / name / "crds").exists()]
