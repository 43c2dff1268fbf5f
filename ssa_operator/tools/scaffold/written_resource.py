"""Writes the files of a new resource, for `ssa-operator new`.

Promises:
- The command overwrites nothing. If a file exists, it names all that exist and writes nothing.
- A golden case has what its templates render.
- A Secret's content is in no file and in no output.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from tempfile import TemporaryDirectory
from typing import Any

from msgspec.structs import replace

from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.operator.crd_files import DefinitionError, short_crd
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.streams import CommandError, OutputFormat, writing
from ssa_operator.rendering.folder.contained_files import read_text, write_bytes
from ssa_operator.rendering.folder.folder_settings import SCHEMA
from ssa_operator.rendering.yaml.validation import GENERATED_NAME
from ssa_operator.schema.short_schema.field_texts import FORMS, TYPES
from ssa_operator.schema.short_schema.short_form import short_form
from ssa_operator.tools import printing
from ssa_operator.tools.cases.golden_cases import CASES, PARENT, PROBLEMS, load_project, update_case
from ssa_operator.tools.offline.documents import read_objects
from ssa_operator.tools.offline.project import crd_kinds
from ssa_operator.tools.scaffold.fields import marked_text
from ssa_operator.tools.scaffold.names import ResourceNames
from ssa_operator.tools.scaffold.project import Parts
from ssa_operator.tools.scaffold.template_text import yaml_document
from ssa_operator.tools.schema_rules import refuse_invalid_values


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where the files of a resource go."""

    templates: Path
    crds: Path
    examples: Path

    def case(self, names: ResourceNames) -> Path:
        """The folder of the golden case, beside the templates folder."""
        return self.templates.parent / CASES / names.folder / CASE


CASE = "example"
"""The name of the golden case."""


def write_resource(
    made: Parts,
    folders: Folders,
    *,
    from_crd: Path | None,
    as_crd: bool,
    given: Sequence[Path],
    output: OutputFormat,
    dry_run: bool,
) -> None:
    """Write the files of a resource, or print them with `dry_run`. Raises CommandError.

    `from_crd` is the file of its CRD or short schema, `as_crd` is whether the resource has a CRD in place of a short
    schema. A folder of `given` may be a link.
    """
    path, text = _api(made, folders, from_crd, as_crd=as_crd)
    files = _with_expected({path: text, **_files(made, folders)}, made, folders)
    if problems := files.get(folders.case(made.names) / PROBLEMS):
        note = f"the operator reports problems for the object of the golden case: {'; '.join(problems.splitlines())}"
        made = replace(made, notes=[*made.notes, note])
    for name, each in made.given_crds.items():
        path = folders.crds / f"{name}.yaml"
        if path.is_file() and read_text(path) == yaml_document(each):
            del files[path]
    kept = from_crd is not None and (
        from_crd.resolve() == path.resolve()
        or (path.parent == folders.crds and from_crd.resolve().parent == folders.crds.resolve())
    )
    if kept:
        del files[path]
    if dry_run:
        _print_files(files, output, made)
        return
    _refuse_existing(files, folders.templates / made.names.folder, kept=path)
    for path, text in files.items():
        _write(path, text, given)
    _report(files, made, output)
    if output is OutputFormat.TABLE:
        with_crds = kept or any(each.parent == folders.crds for each in files)
        streams.line(f"next: {next_step(folders, with_crds=with_crds)}")


def next_step(folders: Folders, *, with_crds: bool) -> str:
    """The command after `new`: it runs what is written, on a local cluster."""
    crds = {"crds": folders.crds} if with_crds else {}
    usual = {"templates": folders.templates, **crds, "examples": folders.examples}
    named = [f"--{name} {quote(str(folder))}" for name, folder in usual.items() if folder != Path(name)]
    return " ".join(["ssa-operator dev", *named])


def one_object(path: Path | None, kind: str = "", folder: str = "") -> Mapping[str, Any] | None:
    """The object of a file, or of several the CRD of a kind; of a `_schema.yaml` the CRD that it stands for, which is
    that of `folder` where it is in none. Raises CommandError if there is none, or if it is an invalid CRD.
    """
    if path is None:
        return None
    if path.is_dir():
        raise CommandError(f"{path} is a folder; name a file with one object", code=2)
    if path.name == SCHEMA:
        try:
            return short_crd(path, "" if "." in path.absolute().parent.name else folder).body
        except DefinitionError as error:
            raise CommandError(str(error)) from error
    found = read_objects([path])
    if kind and len(found) > 1:
        known = crd_kinds(each for each in found if each.body["kind"] == "CustomResourceDefinition")
        names = {each.folder for group_kind, each in known.items() if group_kind.kind == kind}
        found = [each for each in found if each.body["metadata"]["name"] in names]
        if len(found) != 1:
            raise CommandError(f"{path} has {len(found)} CRDs of the kind {kind}; name a file with one", code=2)
    if len(found) != 1:
        raise CommandError(f"{path} has {len(found)} objects; name a file with one object", code=2)
    if found[0].body["kind"] == "CustomResourceDefinition":
        crd_kinds(found)
    return found[0].body


def manifests(path: Path, notes: list[str]) -> list[Mapping[str, Any]]:
    """The objects of a file, or of all YAML and JSON files in a folder and below. An object without a name is a note.
    Raises CommandError.
    """
    files: list[Path] = [path]
    if path.is_dir():
        path = path.resolve() if path.is_symlink() else path
        files = sorted(each for each in path.rglob("*") if each.suffix in (".yaml", ".yml", ".json") and each.is_file())
    unnamed: list[RenderProblem] = []
    found = read_objects(files, unnamed)
    notes += [f"{each.location}: an object is left out, because {GENERATED_NAME}; name it" for each in unnamed]
    if not found:
        source = "standard input" if str(path) == "-" else path
        raise CommandError("\n".join([f"there is no manifest in {source}", *notes]), code=2)
    refuse_invalid_values(found)
    crd_kinds(document for document in found if document.body["kind"] == "CustomResourceDefinition")
    return [document.body for document in found]


_QUOTED_FIELD = re.compile(r'^( *[^\s:"]+: )("(?:[^"\\]|\\.)*")$', re.MULTILINE)
_PLAIN_FIELD = re.compile(r"[A-Za-z]\w* \| [^:#\n\\]*[^:#\s\\]|" + "|".join((*TYPES, *FORMS)))
_HEAD = "# The API of the folder in short; `ssa-operator crds generate` prints the CRD that it stands for.\n"


def _schema_text(short: Mapping[str, Any]) -> str:
    """A short schema as its author would write it: a field needs quotes only if YAML reads it otherwise."""

    def plain(found: re.Match[str]) -> str:
        field = json.loads(found[2])
        return found[1] + (field if _PLAIN_FIELD.fullmatch(field) else found[2])

    return _HEAD + _QUOTED_FIELD.sub(plain, yaml_document(short))


def _api(made: Parts, folders: Folders, from_crd: Path | None, *, as_crd: bool) -> tuple[Path, str]:
    """The file that declares the resource, and its text: a short schema, or a CRD if there is no short form."""
    in_crds = from_crd is not None and from_crd.resolve().parent == folders.crds.resolve()
    short = None if as_crd or in_crds else short_form(made.crd)
    if short is not None:
        path = folders.templates / made.names.folder / SCHEMA
        is_copy = from_crd is not None and from_crd.name == SCHEMA
        return path, read_text(from_crd) if from_crd is not None and is_copy else _schema_text(short)
    is_copy = from_crd is not None and from_crd.name != SCHEMA and len(read_objects([from_crd])) == 1
    text = read_text(from_crd) if from_crd is not None and is_copy else yaml_document(made.crd)
    return folders.crds / f"{made.names.folder}.yaml", text


def _files(made: Parts, folders: Folders) -> dict[Path, str]:
    """The text of each file to write, without the one that declares the resource."""
    names = made.names
    files = {folders.templates / names.folder / name: text for name, text in made.templates.items()}
    files |= {folders.crds / f"{name}.yaml": yaml_document(each) for name, each in made.given_crds.items()}
    files[folders.examples / f"{names.singular}.yaml"] = marked_text(made.example, made.open_places)
    if not made.open_places:
        files[folders.case(names) / PARENT] = yaml_document(made.case_parent or made.example)
    return files


def _with_expected(files: Mapping[Path, str], made: Parts, folders: Folders) -> dict[Path, str]:
    """The files, and those that the golden case expects of them. Without a valid example there is no case."""
    if made.open_places:
        return dict(files)
    with _drafted(made, folders) as drafts:
        written = update_case(drafts.case(made.names), load_project([drafts.templates], [drafts.crds]))
        expected = {folders.case(made.names) / each.name: each.read_text(encoding="utf-8") for each in written}
    return {**files, **expected}


@contextmanager
def _drafted(made: Parts, folders: Folders) -> Iterator[Folders]:
    """The files of the resource in a temporary folder. A message names them as they are to be written."""
    with writing(Path("a temporary folder")):
        temporary = TemporaryDirectory(prefix="ssa-operator-new-")
    with temporary as folder:
        root = Path(folder)
        drafts = Folders(templates=root / "templates", crds=root / "crds", examples=root / "examples")
        path = drafts.crds / f"{made.names.folder}.yaml"
        for each, text in {path: yaml_document(made.crd), **_files(made, drafts)}.items():
            _write(each, text)
        try:
            yield drafts
        except CommandError as error:
            raise CommandError(_with_paths(str(error), drafts, folders), code=error.code) from error


def _with_paths(message: str, drafts: Folders, folders: Folders) -> str:
    """A message about the drafts, with the paths that the user knows."""
    for draft, path in (
        (drafts.templates, folders.templates),
        (drafts.crds, folders.crds),
        (drafts.examples, folders.examples),
        (drafts.templates.parent, folders.templates.parent),
    ):
        message = message.replace(str(draft), str(path))
    return message


def _write(path: Path, text: str, given: Sequence[Path] = ()) -> None:
    """Write a file in its project, or in a folder that the user names, which may be a link."""
    with writing(path):
        write_bytes(path, text.encode(), next((folder for folder in given if path.is_relative_to(folder)), None))


def _refuse_existing(files: Mapping[Path, str], folder: Path, *, kept: Path) -> None:
    """Raises CommandError if a file of the resource exists, except the one that declares it, if that is not written."""
    existing = [str(path) for path in files if os.path.lexists(path)]
    if not existing and folder.is_dir() and any(each != kept or kept in files for each in folder.iterdir()):
        existing = [str(folder)]
    if existing:
        verb = "exist" if len(existing) > 1 else "exists"
        raise CommandError(f"{', '.join(existing)} {verb} already; nothing was written. Remove or rename what is there")


def _print_files(files: Mapping[Path, str], output: OutputFormat, made: Parts) -> None:
    """Print the files and their text."""
    if output is not OutputFormat.TABLE:
        _report(files, made, output, texts=True)
        return
    streams.lines("\n".join(f"# {path}\n{text}" for path, text in files.items()))
    for note in made.notes:
        streams.error(f"note: {note}")


def _report(files: Mapping[Path, str], made: Parts, output: OutputFormat, *, texts: bool = False) -> None:
    """Print which files were written, and what the author should know."""
    parameters: list[dict[str, Any]] = [
        {
            "field": ".".join(("spec", *each.path)),
            "default": each.schema.get("default"),
            "manifests": list(each.sources),
        }
        for each in made.parameters
    ]
    if output is not OutputFormat.TABLE:
        shown = [{"path": str(path), **({"text": text} if texts else {})} for path, text in files.items()]
        printing.data({"files": shown, "parameters": parameters, "notes": list(made.notes)}, output)
        return
    for path in files:
        streams.line(f"created {path}")
    for each in parameters:
        default = "required" if each["default"] is None else _short(each["default"])
        streams.line(f"field {each['field']}: {default} ({', '.join(each['manifests'])})")
    for note in made.notes:
        streams.error(f"note: {note}")


def _short(value: object) -> str:
    """A default in one line."""
    return value if isinstance(value, str) else json.dumps(value)
