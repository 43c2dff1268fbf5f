"""Rules about the files and folders of a templates folder: what the operator doesn't read, or reads as another thing.

Promises:
- A file of another ending that looks like a template is found, with the name that the operator reads.
- An expression in a plain `.yaml` file is found where it is certainly meant: the file is no YAML, or it reads `spec`.
- A file whose name is nearly that of the settings or of the status is found where no other file includes it.
- A folder whose resource no CRD defines is found where its name is near to one of a CRD.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ssa_operator.objects.messages import near_names
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS
from ssa_operator.rendering.folder.folder_snapshot import SUFFIXES
from ssa_operator.rendering.jinja.folder_files import FILES
from ssa_operator.rendering.jinja.templates import STATUS
from ssa_operator.tools.findings.findings import Finding
from ssa_operator.tools.offline.template_folders import possible_plurals

_TEMPLATE_ENDINGS = frozenset({"gotmpl", "j2", "jinja", "jinja2", "json", "tmpl", "tpl", "yaml", "yml"})
_EXPRESSION = re.compile(r"\{\{|\{%")
_SURE = re.compile(r"\{\{-?\s*spec\.")
_LIMIT = 10_000
"""The most files that are looked at."""


def check_files(root: Path, files: Mapping[str, str], broken: Iterable[str]) -> list[Finding]:
    """The findings in one templates folder. `files` are those that the operator reads, `broken` those among them that
    don't load.
    """
    return [*_ignored_files(root), *_plain_files(files, frozenset(broken)), *_misnamed_files(files)]


def _ignored_files(root: Path) -> Iterator[Finding]:
    seen = 0
    for folder, folders, names in os.walk(root):
        below = Path(folder).relative_to(root)
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each != FILES)
        for name in sorted(names):
            seen += 1
            if seen > _LIMIT:
                return
            parts = name.split(".")
            if name.startswith((".", "#")) or name.endswith((*SUFFIXES, "~")) or not below.parts:
                continue
            if parts[-1].lower() in _TEMPLATE_ENDINGS:
                better = _read_name(parts)
                message = f"{name} is not read: the operator reads .yaml.j2, .j2, .yaml and .yml"
                location = SourceLocation(str(below / name), 1)
                yield Finding(code="ignored-file", message=message, location=location, fix=f"rename it to {better}")


def _read_name(parts: Sequence[str]) -> str:
    """The name of a file under which the operator reads it."""
    stem = next((at for at, part in enumerate(parts) if at and part.lower() in _TEMPLATE_ENDINGS), len(parts))
    base = ".".join(parts[:stem])
    if parts[-1].lower() == "json":
        return f"{base}.yaml"
    return f"{base}.j2" if base.startswith("_") and "y" not in "".join(parts[stem:-1]) else f"{base}.yaml.j2"


def _plain_files(files: Mapping[str, str], broken: frozenset[str]) -> Iterator[Finding]:
    for file, text in files.items():
        name = file.rpartition("/")[2]
        if not name.endswith((".yaml", ".yml")) or name.startswith("_"):
            continue
        pattern = _EXPRESSION if file in broken else _SURE
        line = next((at for at, each in enumerate(text.split("\n"), 1) if pattern.search(each)), 0)
        if line:
            stem = name.rpartition(".")[0]
            yield Finding(
                code="plain-file",
                message=f"{name} is plain YAML, in which no {{{{ ... }}}} or {{% ... %}} is rendered",
                location=SourceLocation(file, line),
                fix=f"rename it to {stem}.yaml.j2",
            )


def _misnamed_files(files: Mapping[str, str]) -> Iterator[Finding]:
    """The files whose name is nearly one that the operator reads by its name. No other file may include them."""
    for file in files:
        folder, _, name = file.partition("/")
        stem = name.partition(".")[0]
        near = near_names(name, (SCHEMA, SETTINGS, STATUS), likeness=0.8)
        if not name.startswith("_") or name in (SCHEMA, SETTINGS, STATUS) or not near or f"{folder}/{near[0]}" in files:
            continue
        if not any(stem in text for other, text in files.items() if other != file):
            message = f"{name} is not read: no file includes it"
            location = SourceLocation(file, 1)
            yield Finding(code="ignored-file", message=message, location=location, fix=f"rename it to {near[0]}")


def check_folder_names(folders: Mapping[str, Iterable[str]], known: Sequence[str]) -> list[Finding]:
    """The findings about folders, with their files, of which no CRD is known. `known` are the folders of CRDs."""
    found = []
    for name in sorted(set(folders) - set(known)):
        plural, _, group = name.partition(".")
        plurals = {plural, plural.lower(), *possible_plurals(plural)}
        same = [each for each in known if each.partition(".")[0] in plurals and not group]
        near = same or (near_names(name.lower(), known) if group else [])
        if near:
            message = f"no CRD defines {name}, so the operator never reads templates/{name}"
            fix = f"rename the folder to {near[0]}"
            location = next((SourceLocation(f"{name}/{file}", 1) for file in sorted(folders[name])), None)
            found.append(Finding(code="unknown-resource", message=message, location=location, fix=fix, about=name))
    return found
