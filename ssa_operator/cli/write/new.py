"""`ssa-operator new`: writes a CRD, a template folder, an example and a golden case for a new resource.

Promises:
- The command overwrites nothing. If a file exists, it names all that exist and writes nothing.
- The result passes `ssa-operator check` and `ssa-operator test`, and its example becomes ready.
- A Secret's content is in no file and in no output.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ssa_operator.cli.output_option import OutputOption
from ssa_operator.cli.shared_options import TEMPLATES, example
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.command_error import CommandError, writing
from ssa_operator.tools.terminal.output_format import OutputFormat

if TYPE_CHECKING:
    import tempfile
    from collections.abc import Mapping, Sequence

    from ssa_operator.tools.scaffold.names import ResourceNames
    from ssa_operator.tools.scaffold.project import Parts


@dataclass(frozen=True, slots=True, kw_only=True)
class Folders:
    """Where the files of a resource go."""

    templates: Path
    crds: Path
    examples: Path

    def case(self, names: ResourceNames) -> Path:
        """The folder of the golden case, beside the templates folder."""
        from ssa_operator.tools.cases.golden_cases import CASES

        return self.templates.parent / CASES / names.folder / CASE


CASE = "example"
"""The name of the golden case."""


def _no_kinds() -> list[str]:
    """A new kind is none of the cluster's, so completion suggests nothing."""
    return []


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        epilog=example("ssa-operator new WebSite --group example.com --field replicas:int=2 --field host:string!")
    )(new)


def new(
    kind: Annotated[
        str, typer.Argument(metavar="KIND", help="Kind of the new resource, as in WebSite.", autocompletion=_no_kinds)
    ],
    group: Annotated[
        str,
        typer.Option(
            envvar="SSA_OPERATOR_GROUP",
            help="API group of the resource, as in example.com. An example or a CRD may name it instead.",
        ),
    ] = "",
    field: Annotated[
        list[str] | None,
        typer.Option(
            envvar="SSA_OPERATOR_FIELD",
            metavar="NAME:TYPE[=DEFAULT|!]",
            help="Field of spec (repeatable); ! is required. Types: string, int, bool, number, quantity, duration, "
            "object, []TYPE, map[string]TYPE. A dot nests: db.size:quantity=1Gi, ports[].name:string.",
        ),
    ] = None,
    from_example: Annotated[
        Path | None,
        typer.Option(envvar="SSA_OPERATOR_FROM_EXAMPLE", help="Infer the fields from the object in this file."),
    ] = None,
    from_crd: Annotated[
        Path | None, typer.Option(envvar="SSA_OPERATOR_FROM_CRD", help="Use the CRD in this file.")
    ] = None,
    from_manifests: Annotated[
        Path | None,
        typer.Option(
            envvar="SSA_OPERATOR_FROM_MANIFESTS",
            help="Make templates of the manifests in this file or folder (- is standard input), as helm template or "
            "kubectl get -o yaml print them.",
        ),
    ] = None,
    instance: Annotated[
        str,
        typer.Option(
            envvar="SSA_OPERATOR_INSTANCE",
            help="With --from-manifests, the name that becomes the name of the parent. Default: the label "
            "app.kubernetes.io/instance, or how all names begin.",
        ),
    ] = "",
    plural: Annotated[
        str, typer.Option(envvar="SSA_OPERATOR_PLURAL", help="Plural name. Default: as Kubernetes derives it.")
    ] = "",
    api_version: Annotated[
        str, typer.Option(envvar="SSA_OPERATOR_API_VERSION", help="Version of the resource.  [default: v1alpha1]")
    ] = "",
    project: Annotated[
        Path | None,
        typer.Option(
            envvar="SSA_OPERATOR_PROJECT",
            help="Write a whole repository into this folder: the resource, an image, values of the Helm chart, and a "
            "workflow that checks and plans pull requests.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", envvar="SSA_OPERATOR_DRY_RUN", help="Print the files and write nothing.")
    ] = False,
    templates: Annotated[
        Path | None,
        typer.Option(envvar="SSA_OPERATOR_TEMPLATES", help="Folder for the template folder. Default: templates."),
    ] = None,
    crds: Annotated[
        Path | None,
        typer.Option(envvar="SSA_OPERATOR_CRDS", help="Folder for the CRD. Default: crds beside --templates."),
    ] = None,
    examples: Annotated[
        Path | None,
        typer.Option(
            envvar="SSA_OPERATOR_EXAMPLES", help="Folder for the example. Default: examples beside --templates."
        ),
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Write a CRD, a template folder, an example and a golden case for a new resource.

    Without a source of fields, the resource has replicas and image. The templates are a Deployment and a Service to
    begin with, or those that --from-manifests gives. Existing files are never overwritten.
    """
    from ssa_operator.tools.scaffold.names import ScaffoldError
    from ssa_operator.tools.scaffold.project import NewRequest, parts

    sources = {"--field": field, "--from-example": from_example, "--from-crd": from_crd}
    given = [name for name, value in {**sources, "--from-manifests": from_manifests}.items() if value]
    if len(given) > 1:
        raise CommandError(f"{' and '.join(given)} both say which fields the resource has; use one of them", code=2)
    if instance and from_manifests is None:
        raise CommandError("--instance names what --from-manifests replaces; use it with that option", code=2)
    if project is not None and (templates or crds or examples):
        raise CommandError("--project has its own folders; leave out --templates, --crds and --examples", code=2)
    request = NewRequest(
        kind=kind,
        group=group,
        plural=plural,
        version=api_version,
        fields=tuple(field or ()),
        instance=instance,
        example=_one_object(from_example),
        crd=_one_object(from_crd),
        manifests=None if from_manifests is None else _manifests(from_manifests),
    )
    try:
        made = parts(request)
    except ScaffoldError as error:
        raise CommandError(str(error), code=2) from error
    given_folders = [each for each in (templates, crds, examples, project) if each is not None]
    templates = templates or (project or Path()) / TEMPLATES[0]
    base = templates.parent
    folders = Folders(templates=templates, crds=crds or base / "crds", examples=examples or base / "examples")
    files = _with_expected(_files(made, folders, from_crd), made, folders)
    if project is not None:
        files = {**_project_files(project, made), **files}
    if from_crd is not None and from_crd.resolve().parent == folders.crds.resolve():
        del files[folders.crds / f"{made.names.folder}.yaml"]
    if dry_run:
        _print_files(files, output, made)
        return
    _refuse_existing(files, templates / made.names.folder)
    for path, text in files.items():
        _write(path, text, given_folders)
    _report(files, made, output)


def _one_object(path: Path | None) -> Mapping[str, Any] | None:
    """The object of a file. Raises CommandError if it has none or several, or an invalid CRD."""
    from ssa_operator.tools.offline.parent_documents import read_objects
    from ssa_operator.tools.offline.template_folders import crd_kinds

    if path is None:
        return None
    if path.is_dir():
        raise CommandError(f"{path} is a folder; name a file with one object", code=2)
    found = read_objects([path])
    if len(found) != 1:
        raise CommandError(f"{path} has {len(found)} objects; name a file with one object", code=2)
    if found[0].body["kind"] == "CustomResourceDefinition":
        crd_kinds(found)
    return found[0].body


def _manifests(path: Path) -> list[Mapping[str, Any]]:
    """The objects of a file, or of all YAML and JSON files in a folder and below. Raises CommandError."""
    from ssa_operator.tools.offline.parent_documents import read_objects
    from ssa_operator.tools.schemas.target_schemas import refuse_invalid_values

    files: list[Path] = [path]
    if path.is_dir():
        path = path.resolve() if path.is_symlink() else path
        files = sorted(each for each in path.rglob("*") if each.suffix in (".yaml", ".yml", ".json") and each.is_file())
    found = read_objects(files)
    if not found:
        source = "standard input" if str(path) == "-" else path
        raise CommandError(f"there is no manifest in {source}", code=2)
    refuse_invalid_values(found)
    return [document.body for document in found]


def _files(made: Parts, folders: Folders, from_crd: Path | None) -> dict[Path, str]:
    """The text of each file to write."""
    from ssa_operator.rendering.folder.contained_files import read_text
    from ssa_operator.tools.cases.golden_cases import PARENT
    from ssa_operator.tools.scaffold.escaped_text import yaml_document

    names = made.names
    crd = yaml_document(made.crd) if from_crd is None else read_text(from_crd)
    files = {folders.crds / f"{names.folder}.yaml": crd}
    files |= {folders.templates / names.folder / name: text for name, text in made.templates.items()}
    files[folders.examples / f"{names.singular}.yaml"] = yaml_document(made.example)
    files[folders.case(names) / PARENT] = yaml_document(made.example)
    return files


def _project_files(folder: Path, made: Parts) -> dict[Path, str]:
    """The files of a repository around the resource. Raises CommandError if its name is none for a release."""
    import re

    from ssa_operator import __version__
    from ssa_operator.cli.run.rbac import values_text
    from ssa_operator.rendering.folder.installation import Installation
    from ssa_operator.tools.permissions.needed_permissions import Files, OperatorSettings, needed_permissions
    from ssa_operator.tools.scaffold.repository import PERMISSIONS, Project, repository

    name = folder.resolve().name
    if not re.fullmatch(r"[a-z]([a-z0-9-]{0,40}[a-z0-9])?", name):
        raise CommandError(
            f"{name!r} becomes the name of the image and the release; name the folder with lower-case letters, digits "
            "and dashes, beginning with a letter (at most 42)",
            code=2,
        )
    with _temporary_folder() as temporary:
        root = Path(temporary)
        drafts = Folders(templates=root / "templates", crds=root / "crds", examples=root / "examples")
        for path, text in _files(made, drafts, None).items():
            _write(path, text)
        read = Files(
            templates=[drafts.templates],
            installation=Installation(namespace="ssa-operator"),
            crds=[drafts.crds],
            examples=[drafts.examples],
        )
        needed = needed_permissions(read, OperatorSettings(namespace="ssa-operator"))
    texts = repository(Project(name=name, names=made.names, version=__version__))
    return {folder / path: text for path, text in {**texts, PERMISSIONS: values_text(needed)}.items()}


def _with_expected(files: Mapping[Path, str], made: Parts, folders: Folders) -> dict[Path, str]:
    """The files, and those that the golden case expects of them."""
    from ssa_operator.tools.cases.case_runs import load_project, update_case

    with _temporary_folder() as temporary:
        root = Path(temporary)
        drafts = Folders(templates=root / "templates", crds=root / "crds", examples=root / "examples")
        for path, text in _files(made, drafts, None).items():
            _write(path, text)
        written = update_case(drafts.case(made.names), load_project([drafts.templates], [drafts.crds]))
        expected = {folders.case(made.names) / each.name: each.read_text(encoding="utf-8") for each in written}
    return {**files, **expected}


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    from tempfile import TemporaryDirectory

    with writing(Path("a temporary folder")):
        return TemporaryDirectory(prefix="ssa-operator-new-")


def _write(path: Path, text: str, given: Sequence[Path] = ()) -> None:
    """Write a file in its project, or in a folder that the user names, which may be a link."""
    from ssa_operator.rendering.folder.contained_files import write_bytes

    with writing(path):
        write_bytes(path, text.encode(), next((folder for folder in given if path.is_relative_to(folder)), None))


def _refuse_existing(files: Mapping[Path, str], folder: Path) -> None:
    """Raises CommandError if a file of the resource exists."""
    existing = [str(path) for path in files if os.path.lexists(path)]
    if not existing and folder.is_dir() and any(folder.iterdir()):
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
    from ssa_operator.tools.terminal import printing

    parameters = [
        {"field": ".".join(("spec", *each.path)), "default": each.schema["default"], "manifests": list(each.sources)}
        for each in made.parameters
    ]
    if output is not OutputFormat.TABLE:
        shown = [{"path": str(path), **({"text": text} if texts else {})} for path, text in files.items()]
        printing.data({"files": shown, "parameters": parameters, "notes": list(made.notes)}, output)
        return
    for path in files:
        streams.line(f"created {path}")
    for each in parameters:
        streams.line(f"field {each['field']}: {_short(each['default'])} ({', '.join(each['manifests'])})")
    for note in made.notes:
        streams.error(f"note: {note}")


def _short(value: object) -> str:
    """A default in one line."""
    import json

    return value if isinstance(value, str) else json.dumps(value)
