"""`ssa-operator capture`: saves a live parent, and what its templates read, as a golden case.

Promises:
- The command writes nothing to the cluster, and no content of a Secret to a file.
- The case passes at once: its expected files are what it renders.
- A name in the API server's answer is the name of one folder, or an error.
"""

from __future__ import annotations

from typing import Annotated

import typer

from ssa_operator.cli.completed_names import objects
from ssa_operator.cli.shared_options import TEMPLATES, Context, CrdsOfTemplates, Kubeconfig, Namespace, Templates
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.option_values import check_folders, namespace_of
from ssa_operator.operator.process.streams import CommandError

EXAMPLE = "ssa-operator capture echo/hello --case two-replicas"


def capture(
    parent: Annotated[list[str], typer.Argument(metavar="KIND/NAME", autocompletion=objects, help="The live parent.")],
    case: Annotated[str, typer.Option(metavar="NAME", help="Name of the case. Default: that of the parent.")] = "",
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
    from ssa_operator.tools.cases import captured_case
    from ssa_operator.tools.cases.golden_cases import CASES, check_cases_folder
    from ssa_operator.tools.command_target import cluster_target, parse_references
    from ssa_operator.tools.offline.project import crds_of

    check_folders(templates)
    crd_folders = crds_of(templates, crds)
    if case and not _is_case_name(case):
        raise CommandError(f"--case is {case!r}, which is not a name of a folder of a case", code=2)
    references = parse_references(parent)
    if len(references) != 1:
        raise CommandError("name one parent; a case has one", code=2)
    target = cluster_target(kubeconfig, context)
    live = connection.run(captured_case.read_live_case(references[0], templates, namespace_of(namespace), target))
    folder = live.planned.parent.folder
    name = case or live.planned.parent.live.identity.name
    if not _is_case_name(name):
        raise CommandError(
            f"the parent has the name {name!r}, which is not a name of a folder; name the case with --case"
        )
    check_cases_folder(folder.root.parent / CASES)
    path = folder.root.parent / CASES / folder.name / name
    for written in captured_case.write_case(live, path, templates, crd_folders):
        streams.line(f"wrote {written}")


def _is_case_name(name: str) -> bool:
    """Whether a name is that of a case's folder; those that begin with an underscore are no cases."""
    from ssa_operator.rendering.folder.contained_files import is_file_name

    return is_file_name(name) and not name.startswith("_")
