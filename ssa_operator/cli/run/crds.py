"""`ssa-operator crds`: installs CRDs, waits until the API server serves them, and prints those of `_schema.yaml`.

Promises:
- A CRD that is refused keeps no other one from being applied. All refusals are printed, and the exit code is 1.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from ssa_operator.cli.application import Application
from ssa_operator.cli.shared_options import (
    CRDS,
    TEMPLATES,
    Context,
    Crds,
    Filename,
    Kubeconfig,
    OutputOption,
    Templates,
    Timeout,
    example,
)
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.option_values import check_crd_folders, check_folders, crd_folders
from ssa_operator.operator.process.streams import CommandError, OutputFormat

if TYPE_CHECKING:
    from ssa_operator.objects.render_result import Document

Result = TypeVar("Result")

STANDARD_INPUT = Path("/dev/stdin")

app = Application(
    help="Install CRDs and wait until they are served, or print them.",
    epilog=example("ssa-operator crds apply --crds crds"),
)


@app.command(epilog=example("ssa-operator crds apply --crds crds"))
def apply(
    crds: Crds = CRDS,
    templates: Templates = TEMPLATES,
    filename: Filename = None,
    timeout: Timeout = 30.0,
    allow_data_loss: Annotated[
        bool,
        typer.Option("--allow-data-loss", help="Apply CRDs by which stored objects are refused or lose fields, too."),
    ] = False,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Apply CRDs and wait until they are served. The CRDs are those of the --crds folders and of each `_schema.yaml` in
    --templates, or those of -f.

    Each is applied by itself. One by which stored objects would be refused or lose fields is refused. Exit code 1: one
    was refused; all refusals are printed.
    """
    from ssa_operator.informers.crds import RESOURCE
    from ssa_operator.operator import crd_installation
    from ssa_operator.operator.outdated_owners import outdated_owners, served_versions
    from ssa_operator.operator.process import connection
    from ssa_operator.tools.command_target import cluster_target

    documents = _load(crds, filename, templates)
    roots = _roots(filename, templates)

    async def work() -> None:
        warnings = []
        async with connection.connect(cluster_target(kubeconfig, context)) as client:
            names = [document.body["metadata"]["name"] for document in documents]
            before = {name: live.body for name in names if (live := await client.find(RESOURCE, name))}
            refused = await crd_installation.refusals(
                client, documents, timeout, keep_data=not allow_data_loss, templates=roots
            )
            applied = [document for document in documents if document.body["metadata"]["name"] not in refused]
            for document in applied:
                live = await client.get(RESOURCE, document.body["metadata"]["name"])
                warnings.append(crd_installation.conversion_remark(document, live.body))
                former = before.get(live.identity.name, live.body)
                if served_versions(former) - served_versions(live.body):
                    warnings.append(await outdated_owners(client, live.body))
        for document in applied:
            streams.line(f"{document.body['metadata']['name']} established")
        for remark in (*crd_installation.remarks(applied, roots), *filter(None, warnings)):
            streams.error(remark)
        if refused:
            raise CommandError("\n".join(refused.values()))

    _run(work())


@app.command(epilog=example("ssa-operator crds plan --crds crds"))
def plan(
    crds: Crds = CRDS,
    templates: Templates = TEMPLATES,
    filename: Filename = None,
    output: OutputOption = OutputFormat.TABLE,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Show what these CRDs would do to every stored object: refuse it, lose fields of it, add defaults. Each object is
    also converted to its other versions and back. Nothing is written. The CRDs are those of `crds apply`.

    Exit code 0: nothing is refused or lost, 1: something is, 2: failure.
    """
    import msgspec

    from ssa_operator.operator.conversion.folder_converters import converter_of
    from ssa_operator.operator.process import connection
    from ssa_operator.operator.stored_objects import CRDPlan, plan_crds
    from ssa_operator.tools import printing
    from ssa_operator.tools.command_target import cluster_target

    async def work() -> CRDPlan:
        async with connection.connect(cluster_target(kubeconfig, context)) as client:
            return await plan_crds(client, _load(crds, filename, templates), converter_of(_roots(filename, templates)))

    try:
        found = _run(work())
    except CommandError as error:
        raise CommandError(str(error), code=2) from error
    if output is OutputFormat.TABLE:
        for kind, changes in (("refused", found.refused), ("lost", found.pruned), ("lossy", found.lossy)):
            for each in changes:
                streams.line(f"{kind}  {each.resource} {each}")
        streams.line(
            f"{found.objects} stored: {len(found.refused)} refused, {len(found.pruned)} fields lost, "
            f"{found.defaulted} with new defaults"
        )
    else:
        data = msgspec.to_builtins(found)
        printing.data(data if found.lossy else {key: each for key, each in data.items() if key != "lossy"}, output)
    if found.refused or found.pruned:
        raise typer.Exit(1)


@app.command(epilog=example("ssa-operator crds migrate echoes.example.com"))
def migrate(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="CRDs whose objects are migrated. Default: every CRD of --crds and --templates."),
    ] = None,
    crds: Crds = CRDS,
    templates: Templates = TEMPLATES,
    filename: Filename = None,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Store all objects of CRDs in the storage version, so that older versions can be removed from the CRDs. What is
    interrupted goes on when it is started again. Objects that can't be written stop no others, and are named at the
    end. So are children that name an older version in their owner reference, because the garbage collector would not
    delete them any more. Exit code 1: there are objects that can't be written.
    """
    from ssa_operator.informers.crds import RESOURCE
    from ssa_operator.kube.api.errors import ApiError, NotLeader, Unreachable
    from ssa_operator.operator.outdated_owners import outdated_owners
    from ssa_operator.operator.process import connection
    from ssa_operator.operator.storage_migration import MigrationError
    from ssa_operator.operator.storage_migration import migrate as migrate_crd
    from ssa_operator.tools.command_target import cluster_target

    refused: list[str] = []
    wanted = names or [document.body["metadata"]["name"] for document in _load(crds, filename, templates)]

    async def work() -> None:
        async with connection.connect(cluster_target(kubeconfig, context)) as client:
            for name in wanted:
                try:
                    former = await migrate_crd(
                        client,
                        name,
                        lambda done, all_, name=name: streams.error(f"{name}: {done} of {all_} objects"),  # type: ignore[misc]
                    )
                except (NotLeader, Unreachable):
                    raise
                except (ApiError, MigrationError) as error:
                    refused.append(str(error))
                    continue
                words = f"no object is stored in {', '.join(former)} any more" if former else "nothing to migrate"
                streams.line(f"{name}: {words}")
                if remark := await outdated_owners(client, (await client.get(RESOURCE, name)).body, former):
                    streams.error(remark)
        if refused:
            raise CommandError("\n".join(refused))

    _run(work())


@app.command(epilog=example("ssa-operator crds wait echoes.example.com"))
def wait(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="CRDs to wait for. Default: every CRD of --crds and --templates."),
    ] = None,
    crds: Crds = CRDS,
    templates: Templates = TEMPLATES,
    filename: Filename = None,
    timeout: Timeout = 30.0,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Wait until CRDs exist and are Established."""
    from ssa_operator.operator import crd_installation
    from ssa_operator.operator.process import connection
    from ssa_operator.tools.command_target import cluster_target

    documents = [] if names and not filename and crds == CRDS else _load(crds, filename, templates)
    wanted = names or [document.body["metadata"]["name"] for document in documents]

    async def work() -> None:
        async with connection.connect(cluster_target(kubeconfig, context)) as client:
            await crd_installation.established(client, wanted, timeout)
        for name in wanted:
            streams.line(f"{name} established")

    _run(work())


@app.command(epilog=example("ssa-operator crds generate --templates templates"))
def generate(templates: Templates = TEMPLATES, output: OutputOption = OutputFormat.YAML) -> None:
    """Print the CRDs that the `_schema.yaml` of the template folders stand for: the same bytes each time."""
    from ssa_operator.operator.crd_files import schema_files
    from ssa_operator.rendering.folder.folder_settings import SCHEMA
    from ssa_operator.tools import printing
    from ssa_operator.tools.offline.project import read_crds

    if output is OutputFormat.TABLE:
        raise CommandError("--output table can't show CRDs; choose yaml or json", code=2)
    check_folders(templates)
    files = schema_files(templates)
    if not any(file.name == SCHEMA for file in files):
        raise CommandError(f"no folder in {', '.join(map(str, templates))} has a _schema.yaml", code=2)
    printing.objects([document.body for document in read_crds(files)], output)


def _roots(filename: Sequence[str] | None, templates: Sequence[Path]) -> list[Path]:
    """The templates folders whose conversions count: those of the files of -f, too."""
    from ssa_operator.rendering.folder.folder_settings import SCHEMA

    given = (Path(each) for each in filename or ())
    return [*dict.fromkeys((*(each.parent.parent for each in given if each.name == SCHEMA), *templates))]


def _load(crds: Sequence[Path], filename: Sequence[str] | None, templates: Sequence[Path]) -> list[Document]:
    """The CRDs of the files of -f, or else of the folders. Raises CommandError."""
    from ssa_operator.operator.crd_files import DefinitionError, load_crds, schema_files
    from ssa_operator.tools.offline.documents import given_files

    if filename:
        paths = [STANDARD_INPUT if each == "-" else Path(each) for each in given_files((), filename, "")]
        check_crd_folders(paths)
        paths += [each for each in schema_files(templates) if each.is_dir()]
    else:
        paths = [*crd_folders(crds, templates), *schema_files(templates)]
    try:
        return load_crds(*paths)
    except DefinitionError as error:
        raise CommandError(str(error)) from error


def _run(work: Coroutine[None, None, Result]) -> Result:
    import asyncio

    from ssa_operator.kube.api.errors import ApiError
    from ssa_operator.operator.crd_files import DefinitionError

    try:
        return asyncio.run(work)
    except (DefinitionError, ApiError) as error:
        raise CommandError(str(error)) from error
