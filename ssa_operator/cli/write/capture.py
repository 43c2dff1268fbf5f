"""`ssa-operator capture`: saves a live parent, and what its templates read, as a golden case.

Promises:
- The command writes nothing to the cluster, and no content of a Secret to a file.
- The case passes at once: its expected files are what it renders.
- A name in the API server's answer is the name of one folder, or an error.
- Nothing that exists is overwritten or removed. If the command fails, it leaves no files.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.shared_options import (
    TEMPLATES,
    Context,
    CrdsOfTemplates,
    Kubeconfig,
    Namespace,
    Templates,
    example,
    namespace_of,
)
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.command_error import CommandError, writing
from ssa_operator.operator.process.given_folders import check_folders
from ssa_operator.tools.offline.project_folders import crds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ssa_operator.operator.process.connection import Target
    from ssa_operator.tools.cases.captured_case import LiveCase
    from ssa_operator.tools.connection.object_reference import ObjectReference


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog=example("ssa-operator capture echo/hello --case two-replicas"))(capture)


def capture(
    parent: Annotated[list[str], typer.Argument(metavar="KIND/NAME", help="The live parent.")],
    case: Annotated[
        str,
        typer.Option(envvar="SSA_OPERATOR_CASE", metavar="NAME", help="Name of the case. Default: that of the parent."),
    ] = "",
    templates: Templates = TEMPLATES,
    crds: CrdsOfTemplates = None,
    namespace: Namespace = "",
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Save a live parent, its children and what its templates look up as a golden case.

    The files are in tests/<plural>.<group>/<case>/ beside the templates. Stand-ins replace the content of Secrets.
    """
    from ssa_operator.operator.process import connection
    from ssa_operator.tools.cases.golden_cases import CASES, check_cases_folder
    from ssa_operator.tools.connection.object_reference import parse_references

    check_folders(templates)
    crd_folders = crds_of(templates, crds)
    if case and not _is_case_name(case):
        raise CommandError(f"--case is {case!r}, which is not a name of a folder of a case", code=2)
    references = parse_references(parent)
    if len(references) != 1:
        raise CommandError("name one parent; a case has one", code=2)
    target = connection.Target(kubeconfig=kubeconfig, context=context)
    live = connection.run(_read(references[0], templates, namespace_of(namespace), target))
    folder = live.planned.parent.folder
    name = case or live.planned.parent.live.identity.name
    if not _is_case_name(name):
        raise CommandError(
            f"the parent has the name {name!r}, which is not a name of a folder; name the case with --case"
        )
    check_cases_folder(folder.root.parent / CASES)
    path = folder.root.parent / CASES / folder.name / name
    for written in _write(live, path, templates, crd_folders):
        streams.line(f"wrote {written}")


def _is_case_name(name: str) -> bool:
    """Whether a name is that of a case's folder; those that begin with an underscore are no cases."""
    from ssa_operator.rendering.folder.contained_files import is_file_name

    return is_file_name(name) and not name.startswith("_")


async def _read(reference: ObjectReference, templates: Sequence[Path], namespace: str, target: Target) -> LiveCase:
    """The live parent with what its templates read. Raises CommandError if an object of it can't be read."""
    import time

    from ssa_operator.objects.cluster_view import Lookup, Selection
    from ssa_operator.objects.live_object import LiveObject
    from ssa_operator.operator.operator_options import Options
    from ssa_operator.tools.cases.captured_case import LiveCase
    from ssa_operator.tools.plan import previews

    async with previews.opened(
        target, Options(templates=tuple(templates)), lambda default: [namespace or default]
    ) as opened:
        (named,) = await previews.parents_of_references(opened, [reference], namespace)
        preview, now = opened.preview, time.time()
        planned = await preview.plan(named.parent)
        status = await preview.render_status(planned)
        others = {}
        for query in dict.fromkeys((*planned.rendered.queries, *status.queries)):
            if isinstance(query, Lookup | Selection):
                answer = preview.cluster.lookups.answer(query)
                if answer.unknown:
                    raise CommandError(f"{query} can't be captured: {answer.unknown}")
                others.update({LiveObject.of(dict(body)).identity: body for body in answer.objects})
    rendered = planned.rendered
    return LiveCase(
        planned=planned,
        others=[others[identity] for identity in sorted(others)],
        uses_time=rendered.changed_by_time or rendered.again_at is not None or status.again_at is not None,
        now=now,
    )


def _write(live: LiveCase, path: Path, templates: Sequence[Path], crds: Sequence[Path]) -> list[Path]:
    """Write the case, and return its files. Raises CommandError."""
    import os
    import secrets
    import shutil

    from ssa_operator.rendering.folder.contained_files import real_path
    from ssa_operator.tools.cases.captured_case import captured_case
    from ssa_operator.tools.cases.case_runs import load_project, update_case
    from ssa_operator.tools.cases.golden_cases import project_of_case

    if os.path.lexists(path):
        raise CommandError(f"{path} exists; remove it, or name another case with --case", code=2)
    project = load_project(templates, crds)
    with writing(path):
        real_path(path, project_of_case(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        # An unused name, because an existing file may belong to another program.
        temporary = path.with_name(f".capture-{secrets.token_hex(8)}")
        temporary.mkdir()
    try:
        captured_case(live).align(temporary, project)
        update_case(temporary, project)
        with writing(path):
            temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return sorted(path.iterdir())
