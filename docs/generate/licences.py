"""Makes the table of licences from the software bill of materials.

Promises:
- The table has what the runtime image has: the pins of deploy/constraints/runtime.txt that are installed here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from ssa_operator.cli import reference

ROOT = Path(__file__).parents[2]
_PIN = re.compile(r"^\w.*(?= \\$)", re.MULTILINE)
_CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?")


def bill_of_materials() -> bytes:
    """The CycloneDX document of the Python environment that runs this, as JSON."""
    program = Path(sys.executable).with_name("cyclonedx-py")
    command: list[str | Path] = [
        program,
        "environment",
        "--no-validate",
        "--pyproject",
        ROOT / "pyproject.toml",
        "--output-reproducible",
        sys.executable,
    ]
    return subprocess.run(command, capture_output=True, check=True).stdout


def runtime_components(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The components of a CycloneDX document that the runtime image has, in alphabetical order."""
    text = (ROOT / "deploy" / "constraints" / "runtime.txt").read_text(encoding="utf-8")
    pins = [pin for pin in map(Requirement, _PIN.findall(text)) if pin.marker is None or pin.marker.evaluate()]
    pinned = {f"{pin.name}{pin.specifier}" for pin in pins}
    found = [each for each in document["components"] if f"{_normalized(each['name'])}=={each['version']}" in pinned]
    return sorted(found, key=lambda each: _normalized(each["name"]))


def licences(component: Mapping[str, Any]) -> tuple[str, ...]:
    """The licences that a component declares: SPDX identifiers and expressions where it has any, else names."""
    declared = [each.get("license", {}) for each in component.get("licenses", ())]
    spdx = [each["expression"] for each in component.get("licenses", ()) if "expression" in each]
    spdx += [each["id"] for each in declared if "id" in each]
    return tuple(spdx) or tuple(_CLASSIFIER.sub("", each["name"]) for each in declared if "name" in each)


def table() -> str:
    """The table of the components of the runtime image."""
    components = runtime_components(json.loads(bill_of_materials()))
    rows = ((each["name"], each["version"], ", ".join(licences(each))) for each in components)
    return reference.table(("package", "version", "licence"), rows)


def _normalized(name: str) -> str:
    """The name as pins have it (https://packaging.python.org/specifications/name-normalization/)."""
    return re.sub(r"[-_.]+", "-", name).lower()
