"""`ssa-operator crds`: installs CRDs and waits until the API server serves them.

Promises:
- A CRD that is refused keeps no other one from being applied. All refusals are printed, and the exit code is 1.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Annotated

import typer

from ssa_operator.cli.application import Application
from ssa_operator.cli.shared_options import CRDS, Context, Crds, Kubeconfig, Timeout, example
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.option_values import check_crd_folders
from ssa_operator.operator.process.streams import CommandError

app = Application(
    help="Install CRDs and wait until they are served.", epilog=example("ssa-operator crds apply --crds crds")
)


@app.command(epilog=example("ssa-operator crds apply --crds crds"))
def apply(crds: Crds = CRDS, timeout: Timeout = 30.0, context: Context = None, kubeconfig: Kubeconfig = None) -> None:
    """Apply CRDs and wait until they are served. The CRDs are those of the --crds folders.

    Each is applied by itself. Exit code 1: one was refused; all refusals are printed.
    """
    from ssa_operator.operator import crd_installation
    from ssa_operator.operator.process import connection

    check_crd_folders(crds)

    async def work() -> None:
        documents = crd_installation.load_crds(*crds)
        async with connection.connect(connection.Target(kubeconfig=kubeconfig, context=context)) as client:
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
    timeout: Timeout = 30.0,
    context: Context = None,
    kubeconfig: Kubeconfig = None,
) -> None:
    """Wait until CRDs exist and are Established."""
    from ssa_operator.operator import crd_installation
    from ssa_operator.operator.process import connection

    if not names or crds != CRDS:
        check_crd_folders(crds)

    async def work() -> None:
        wanted = names or [document.body["metadata"]["name"] for document in crd_installation.load_crds(*crds)]
        async with connection.connect(connection.Target(kubeconfig=kubeconfig, context=context)) as client:
            await crd_installation.established(client, wanted, timeout)
        for name in wanted:
            streams.line(f"{name} established")

    _run(work())


def _run(work: Coroutine[None, None, None]) -> None:
    import asyncio

    from ssa_operator.kube.api.errors import ApiError
    from ssa_operator.operator.crd_installation import DefinitionError

    try:
        asyncio.run(work)
    except (DefinitionError, ApiError) as error:
        raise CommandError(str(error)) from error
