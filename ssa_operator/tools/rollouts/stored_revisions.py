"""Templates folders with what a stored revision holds, so that commands use it in place of the files on disk.

Promises:
- A revision that isn't stored, or can't be read, is an error that says so; nothing else is taken in its place.
- Nothing is written outside of the temporary folder, whatever paths a revision has. It is removed at the end.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import json
from msgspec.structs import replace

from ssa_operator.kube.api.discovery import RESTMapper, UnknownKind
from ssa_operator.objects.identity import GroupKind
from ssa_operator.operator.operator_options import Options
from ssa_operator.operator.process import connection
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.contained_files import write_bytes
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import FolderInputs
from ssa_operator.tools.command_target import resolve_kind
from ssa_operator.tools.plan.previews import USAGE, ParentArguments
from ssa_operator.tools.rollouts.stored_rollouts import find_rollouts


@contextmanager
def with_revision(arguments: Sequence[str], options: Options, target: Target, number: int | None) -> Iterator[Options]:
    """The options with the templates and values of a revision of the folder of these parents; with None as they are.
    Raises CommandError, for whatever fails with the exit code of an error of `diff`.
    """
    if number is None:
        yield options
        return
    if options.installation.values:
        raise CommandError("a revision holds the values of --values; leave one of the two options out", code=USAGE)
    if "-" in arguments:
        raise CommandError("--revision reads no parents from standard input; name a file", code=USAGE)
    found = connection.run(_read(arguments, options.installation.namespace, target, number), code=USAGE)
    with tempfile.TemporaryDirectory(prefix="ssa-operator-") as directory:
        templates, installation = written(*found, Path(directory))
        yield replace(options, templates=(templates,), installation=installation)


async def _read(arguments: Sequence[str], namespace: str, target: Target, number: int) -> tuple[str, FolderInputs]:
    parents = ParentArguments.read(arguments)
    async with connection.connect(target) as client:
        mapper, names = RESTMapper(client), set()
        for reference in parents.references:
            names.add((await resolve_kind(mapper, reference.kind)).name)
        for document in parents.documents or ():
            version, kind = (str(document.body.get(each, "")) for each in ("apiVersion", "kind"))
            try:
                names.add((await mapper.resource(GroupKind(version.rpartition("/")[0], kind))).name)
            except UnknownKind as error:
                raise CommandError(f"{document.location}: {error}") from error
        if len(names) != 1:
            raise CommandError(
                f"--revision is that of one folder, and these parents have {len(names)} ({', '.join(sorted(names))})"
            )
        (folder,) = names
        shown = await (await find_rollouts(client, folder, namespace)).revision(number)
        return folder, shown.read()


def written(folder: str, inputs: FolderInputs, directory: Path) -> tuple[Path, Installation]:
    """The templates folder and the values of a revision, written below an empty folder."""
    templates, values = directory / "templates", []
    data = {path: each for path, each in inputs.data.items() if isinstance(each, bytes)}
    for path, content in {**data, **{path: text.encode() for path, text in inputs.files.items()}}.items():
        try:
            write_bytes(templates / path, content, templates)
        except (OSError, ValueError) as error:
            raise CommandError(
                f"the revision of {folder} has the file {path!r}, which can't be written: {error}", code=USAGE
            ) from error
    for at, override in enumerate(inputs.overrides):
        values.append(directory / f"values-{at}.yaml")
        values[-1].write_bytes(json.encode({folder: override}))
    return templates, Installation(values=tuple(values), namespace=inputs.operator.get("namespace", ""))
