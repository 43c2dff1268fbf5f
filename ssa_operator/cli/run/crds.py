"""`ssa-operator crds`: installs CRDs and waits until the API server serves them.

Promises:
- A CRD that is refused keeps no other one from being applied. All refusals are printed, and the exit code is 1.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ssa_operator.cli.application import Application
from ssa_operator.cli.shared_options import CRDS, Context, Crds, Filename, Kubeconfig, Timeout, example
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.option_values import check_crd_folders
from ssa_operator.operator.process.streams import CommandError

if TYPE_CHECKING:
    from ssa_operator.objects.render_result import Document

STANDARD_INPUT = Path("/dev/stdin")

app = Application(
    help="Install CRDs and wait until they are served.", epilog=example("ssa-operator crds apply --crds crds")
)


@app.command(epilog=example("ssa-operator crds apply --crds crds"))
def apply(
    crds: Crds = CRDS,
    filename: Filename = None,
    timeout: Timeout = 30.0,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Apply CRDs and wait until they are served. The CRDs are those of the --crds folders, or those of -f.

    Each is applied by itself. Exit code 1: one was refused; all refusals are printed.
    """
    from ssa_operator.operator import crd_installation
    from ssa_operator.operator.process import connection
    from ssa_operator.tools.connection.cluster_target import cluster_target

    documents = _load(crds, filename)

    async def work() -> None:
        async with connection.connect(cluster_target(kubeconfig, context)) as client:
            refused = await crd_installation.refusals(client, documents, timeout)
        applied = [document for document in documents if document.body["metadata"]["name"] not in refused]
        for document in applied:
            streams.line(f"{document.body['metadata']['name']} established")
        for remark in crd_installation.remarks(applied):
            streams.error(remark)
        if refused:
            raise CommandError("\n".join(refused.values()))

    _run(work())


@app.command(epilog=example("ssa-operator crds wait echoes.example.com"))
def wait(
    names: Annotated[
        list[str] | None, typer.Argument(help="CRDs to wait for. Default: every CRD in the --crds folders.")
    ] = None,
    crds: Crds = CRDS,
    filename: Filename = None,
    timeout: Timeout = 30.0,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Wait until CRDs exist and are Established."""
    from ssa_operator.operator import crd_installation
    from ssa_operator.operator.process import connection
    from ssa_operator.tools.connection.cluster_target import cluster_target

    documents = [] if names and not filename and crds == CRDS else _load(crds, filename)
    wanted = names or [document.body["metadata"]["name"] for document in documents]

    async def work() -> None:
        async with connection.connect(cluster_target(kubeconfig, context)) as client:
            await crd_installation.established(client, wanted, timeout)
        for name in wanted:
            streams.line(f"{name} established")

    _run(work())


def _load(crds: Sequence[Path], filename: Sequence[str] | None) -> list[Document]:
    """The CRDs of the files of -f, or else of the folders. Raises CommandError."""
    from ssa_operator.rendering.folder.object_files import DefinitionError, load_crds
    from ssa_operator.tools.offline.parent_documents import given_files

    files = given_files((), filename, "") if filename else crds
    paths = [STANDARD_INPUT if each == "-" else Path(each) for each in files]
    check_crd_folders(paths)
    try:
        return load_crds(*paths)
    except DefinitionError as error:
        raise CommandError(str(error)) from error


def _run(work: Coroutine[None, None, None]) -> None:
    import asyncio

    from ssa_operator.kube.api.errors import ApiError
    from ssa_operator.operator.crd_installation import DefinitionError

    try:
        asyncio.run(work)
    except (DefinitionError, ApiError) as error:
        raise CommandError(str(error)) from error
