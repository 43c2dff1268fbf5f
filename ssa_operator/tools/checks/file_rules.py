"""Rules about the files and folders of a templates folder: what the operator doesn't read, or reads as another thing.

Promises:
- A file that is neither rendered nor read, and that no other file includes, is found, with the name to give it. Where
  a name is computed, each file may be included.
- An expression in a plain `.yaml` file is found where it is certainly meant: the file is no YAML, or it reads `spec`.
- A folder whose resource no CRD defines is found where its name is near to one of a CRD.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from jinja2 import nodes

from ssa_operator.objects.messages import near_names
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.folder.folder_settings import SCHEMA, SETTINGS
from ssa_operator.rendering.folder.folder_snapshot import SUFFIXES
from ssa_operator.rendering.jinja.folder_files import FILES
from ssa_operator.rendering.jinja.templates import CONVERT, MANIFESTS, SHARED, STATUS, VALUES, is_manifest
from ssa_operator.tools.checks.parent_choices import REFERENCES
from ssa_operator.tools.findings.findings import Finding
from ssa_operator.tools.offline.template_folders import possible_plurals

_TEMPLATE_ENDINGS = frozenset({"gotmpl", "j2", "jinja", "jinja2", "json", "tmpl", "tpl", "yaml", "yml"})
_EXPRESSION = re.compile(r"\{\{|\{%")
_SURE = re.compile(r"\{\{-?\s*spec\.")
_DOCUMENTATION = re.compile(r"README|LICENSE|CHANGELOG|.*\.(?:md|rst)$", re.IGNORECASE)
_LIMIT = 10_000
"""The most files that are looked at."""


def check_files(
    root: Path, files: Mapping[str, str], trees: Mapping[str, nodes.Template], broken: Iterable[str]
) -> list[Finding]:
    """The findings in one templates folder. `files` are those that the operator reads, `trees` the syntax trees of its
    templates, `broken` the files that don't load.
    """
    return [*_ignored_files(root), *_plain_files(files, frozenset(broken)), *_unused_files(files, trees)]


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
            if is_template or not (_DOCUMENTATION.match(name) or "." not in name):
                message = f"{name} is not read: the operator reads .yaml.j2, .j2, .yaml, .yml and .json"
                fix = f"rename it to {_read_name(name)}" if is_template else "move it to files/, or remove it"
                yield Finding(
                    code="ignored-file", message=message, location=SourceLocation(str(below / name), 1), fix=fix
                )


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


def _unused_files(files: Mapping[str, str], trees: Mapping[str, nodes.Template]) -> Iterator[Finding]:
    """The files of folders that are neither rendered nor read by their name, and that no other file includes."""
    included = {name: _included(trees.get(name)) for name in files if name.endswith(".j2")}
    for file in files:
        folder, _, inner = file.partition("/")
        own = (SCHEMA, SETTINGS, STATUS, VALUES)
        named = inner.startswith((*(f"{each.partition('.')[0]}." for each in own), f"{CONVERT}/"))
        if folder == SHARED or not inner or named or is_manifest(folder, file):
            continue
        readers = (each for name, each in included.items() if name.startswith((f"{folder}/", f"{SHARED}/")))
        if any(each is None or inner in each for each in readers):
            continue
        name = inner.rpartition("/")[2]
        near = [each for each in near_names(name, own, likeness=0.8) if f"{folder}/{each}" not in files]
        better = near[0] if near else _read_name(name.lstrip("_"))
        why = f"{name} is neither rendered nor read: no file includes it"
        fix = f"rename it to {better}" if better != name else "include it, or move it out of its folder"
        yield Finding(code="ignored-file", message=why, location=SourceLocation(file, 1), fix=fix)


def _included(tree: nodes.Template | None) -> frozenset[str] | None:
    """The names that a template includes, imports or extends; None if a name is computed, or Jinja can't read it."""
    if tree is None:
        return None
    named = [each.template for each in tree.find_all(REFERENCES)]
    named = [each for name in named for each in (name.items if isinstance(name, (nodes.List, nodes.Tuple)) else [name])]
    if not all(isinstance(each, nodes.Const) for each in named):
        return None
    return frozenset(str(each.value) for each in named)


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
