"""`ssa-operator new`: writes a template folder with its API, an example and a golden case for a new resource.

Promises:
- The result passes `ssa-operator check` and `ssa-operator test`, and its example becomes ready.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ssa_operator.cli.shared_options import TEMPLATES, OutputOption
from ssa_operator.operator.process.streams import CommandError, OutputFormat

EXAMPLE = "ssa-operator new WebSite --group example.com --field replicas:int=2 --field host:string!"


def new(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="Kind of the new resource, as in WebSite.")],
    group: Annotated[
        str, typer.Option(help="API group of the resource, as in example.com. An example or a CRD may name it instead.")
    ] = "",
    field: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME:TYPE[=DEFAULT|!][:MARKER=VALUE]",
            help="Field of spec (repeatable); ! is required. Types: string, int, bool, number, quantity, duration, "
            "object, []TYPE, map[string]TYPE. A dot nests: db.size:quantity=1Gi, ports[].name:string. Markers: enum, "
            "minimum, maximum, pattern, description, as in size:string=small:enum=small|large.",
        ),
    ] = None,
    from_example: Annotated[Path | None, typer.Option(help="Infer the fields from the object in this file.")] = None,
    from_crd: Annotated[
        Path | None, typer.Option(help="Use the CRD of KIND in this file, or this _schema.yaml.")
    ] = None,
    from_manifests: Annotated[
        Path | None,
        typer.Option(
            help="Make templates of the manifests in this file or folder (- is standard input), as helm template or "
            "kubectl get -o yaml print them."
        ),
    ] = None,
    instance: Annotated[
        str,
        typer.Option(
            help="With --from-manifests, the name that becomes the name of the parent. Default: the label "
            "app.kubernetes.io/instance, or how all names begin."
        ),
    ] = "",
    plural: Annotated[str, typer.Option(help="Plural name. Default: as Kubernetes derives it.")] = "",
    api_version: Annotated[str, typer.Option(help="Version of the resource. Default: v1alpha1.")] = "",
    crd: Annotated[
        bool, typer.Option("--crd", help="Write a CRD into the folder of --crds, instead of _schema.yaml.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the files and write nothing.")] = False,
    templates: Annotated[Path | None, typer.Option(help="Folder for the template folder. Default: templates.")] = None,
    crds: Annotated[Path | None, typer.Option(help="Folder for the CRD. Default: crds beside --templates.")] = None,
    examples: Annotated[
        Path | None, typer.Option(help="Folder for the example. Default: examples beside --templates.")
    ] = None,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Write a template folder with its API, an example and a golden case for a new resource.

    Without a source of fields, the resource has replicas and image. The templates are a Deployment and a Service to
    begin with, or those that --from-manifests gives. Existing files are never overwritten.
    """
    from ssa_operator.tools.scaffold.names import ScaffoldError
    from ssa_operator.tools.scaffold.project import NewRequest, folder_of, parts
    from ssa_operator.tools.scaffold.written_resource import Folders, manifests, one_object, write_resource

    sources = {"--field": field, "--from-example": from_example, "--from-crd": from_crd}
    given = [name for name, value in {**sources, "--from-manifests": from_manifests}.items() if value]
    if len(given) > 1:
        raise CommandError(f"{' and '.join(given)} both say which fields the resource has; use one of them", code=2)
    if instance and from_manifests is None:
        raise CommandError("--instance names what --from-manifests replaces; use it with that option", code=2)
    notes: list[str] = []
    request = NewRequest(
        kind=kind,
        group=group,
        plural=plural,
        version=api_version,
        fields=tuple(field or ()),
        instance=instance,
        example=one_object(from_example),
        crd=one_object(from_crd, kind, folder_of(kind, plural, group)),
        manifests=None if from_manifests is None else manifests(from_manifests, notes),
        notes=notes,
    )
    try:
        made = parts(request)
    except ScaffoldError as error:
        raise CommandError(f"{from_crd}: {error}" if from_crd else str(error), code=2) from error
    templates_folder = templates or TEMPLATES[0]
    base = templates_folder.parent
    write_resource(
        made,
        Folders(templates=templates_folder, crds=crds or base / "crds", examples=examples or base / "examples"),
        from_crd=from_crd,
        as_crd=crd,
        given=[each for each in (templates, crds, examples) if each is not None],
        output=output,
        dry_run=dry_run,
    )
