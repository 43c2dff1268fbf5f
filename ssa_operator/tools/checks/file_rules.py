"""Rules about the files and folders of a templates folder: what the operator doesn't read, or reads as another thing.

Promises:
- A file that is neither rendered nor read, and that no other file includes, is found, with the name to give it. Where
  a name is computed, or a file doesn't load, each file may be included.
- An expression in a plain `.yaml` file is found where it is certainly meant: the file is no YAML, or it reads `spec`.
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
from ssa_operator.rendering.folder.loaded_folders import Folder
from ssa_operator.rendering.jinja.folder_files import FILES
from ssa_operator.rendering.jinja.templates import CONVERT, MANIFESTS, STATUS, VALUES, is_manifest
from ssa_operator.tools.findings.findings import Finding
from ssa_operator.tools.offline.project import possible_plurals

_TEMPLATE_ENDINGS = frozenset({"gotmpl", "j2", "jinja", "jinja2", "json", "tmpl", "tpl", "yaml", "yml"})
_EXPRESSION = re.compile(r"\{\{|\{%")
_SURE = re.compile(r"\{\{-?\s*spec\.")
_DOCUMENTATION = re.compile(r"[^.]*|README.*|LICENSE.*|.*\.(?:md|rst)")
_LIMIT = 10_000
"""The most files that are looked at."""


def check_files(
    root: Path, files: Mapping[str, str], folders: Iterable[Folder], broken: Iterable[str]
) -> list[Finding]:
    """The findings in one templates folder. `files` are those that the operator reads, `folders` the folders with
    templates, `broken` the files that don't load.
    """
    unused = (each for folder in folders if folder.root == root for each in _unused_files(folder))
    return [*_ignored_files(root), *_plain_files(files, frozenset(broken)), *unused]


def _ignored_files(root: Path) -> Iterator[Finding]:
    seen = 0
    for folder, folders, names in os.walk(root):
        below = Path(folder).relative_to(root)
        folders[:] = sorted(each for each in folders if not each.startswith(".") and each != FILES)
        for name in sorted(names):
            seen += 1
            if seen > _LIMIT:
                return
            if name.startswith((".", "#")) or name.endswith((*SUFFIXES, "~")) or not below.parts:
                continue
            is_template = name.rpartition(".")[2].lower() in _TEMPLATE_ENDINGS
            if is_template or not _DOCUMENTATION.fullmatch(name):
                message = f"{name} is not read: the operator reads .yaml.j2, .j2, .yaml, .yml and .json"
                fix = f"rename it to {_read_name(name)}" if is_template else "move it to files/, or remove it"
                location = SourceLocation(str(below / name), 1)
                yield Finding(code="ignored-file", message=message, location=location, fix=fix)


def _read_name(name: str) -> str:
    """The name of a file under which the operator reads it."""
    parts = name.split(".")
    stem = next((at for at, part in enumerate(parts) if at and part.lower() in _TEMPLATE_ENDINGS), len(parts))
    base = ".".join(parts[:stem])
    return f"{base}.j2" if base.startswith("_") and "y" not in "".join(parts[stem:-1]) else f"{base}.yaml.j2"


def _plain_files(files: Mapping[str, str], broken: frozenset[str]) -> Iterator[Finding]:
    for file, text in files.items():
        name = file.rpartition("/")[2]
        if not name.endswith(MANIFESTS) or name.startswith("_"):
            continue
        pattern = _EXPRESSION if file in broken else _SURE
        line = next((at for at, each in enumerate(text.split("\n"), 1) if pattern.search(each)), 0)
        language = "JSON" if name.endswith(".json") else "YAML"
        if line:
            yield Finding(
                code="plain-file",
                message=f"{name} is plain {language}, in which no {{{{ ... }}}} or {{% ... %}} is rendered",
                location=SourceLocation(file, line),
                fix=f"rename it to {re.sub('[.]yml$', '.yaml', name)}.j2",
            )


def _unused_files(folder: Folder) -> Iterator[Finding]:
    """The files that are neither rendered nor read by their name, and that no other file includes."""
    included = folder.templates.included if folder.templates is not None else None
    if included is None:
        return
    own = (SCHEMA, SETTINGS, STATUS, VALUES)
    named = (*(f"{each.partition('.')[0]}." for each in own), f"{CONVERT}/")
    for inner in folder.files:
        file, name = f"{folder.name}/{inner}", inner.rpartition("/")[2]
        if inner.startswith(named) or is_manifest(folder.name, file) or file in included:
            continue
        near = [each for each in near_names(name, own, likeness=0.8) if each not in folder.files]
        better = near[0] if near else _read_name(name.lstrip("_"))
        fix = f"rename it to {better}" if better != name else "include it, or move it out of its folder"
        message = f"{name} is neither rendered nor read: no file includes it"
        yield Finding(code="ignored-file", message=message, location=SourceLocation(file, 1), fix=fix)


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
