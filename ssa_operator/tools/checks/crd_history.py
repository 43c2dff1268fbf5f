"""What changed in CRDs since an earlier state of them, for `check --against`.

Promises:
- The earlier state is a folder or file, or a revision of git, of which only the CRDs are read.
- A CRD that is missing now is a finding.
- A revision that git doesn't know, and an earlier CRD that can't be read, is an error and not an empty state.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from ssa_operator.objects.render_result import Document
from ssa_operator.operator.crd_files import schema_files
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.folder_settings import SCHEMA
from ssa_operator.rendering.folder.object_files import SUFFIXES
from ssa_operator.rendering.jinja.templates import CONVERT
from ssa_operator.schema.crd_changes import crd_changes
from ssa_operator.tools.findings.codes import REPLACED
from ssa_operator.tools.findings.findings import Finding
from ssa_operator.tools.offline.project import read_crds


def check_against(before: Iterable[Document], definitions: Sequence[Document]) -> list[Finding]:
    """The findings about changes that can refuse or lose objects."""
    now = {definition.body["metadata"]["name"]: definition for definition in definitions}
    findings: list[Finding] = []
    for earlier in before:
        name = earlier.body["metadata"]["name"]
        found = now.get(name)
        if found is None:
            words = f"the CRD {name} is gone: without it the API server deletes all its objects; keep it"
            findings.append(Finding(code="crd-removed", message=words))
            continue
        findings += [
            Finding(
                code=REPLACED.get(each.code, each.code),
                message=f"{name}: {each.message}",
                location=found.location_of(each.path),
            )
            for each in crd_changes(earlier.body, found.body)
        ]
    return findings


def earlier_crds(state: str, crds: Sequence[Path], templates: Sequence[Path]) -> list[Document]:
    """The CRDs of a project, a folder or a file, or those that these folders had in a revision of git. Raises
    CommandError.
    """
    path = Path(state)
    if path.exists():
        below = path / "crds"
        return read_crds([below if below.is_dir() else path, *schema_files([path / "templates", path])])
    folders = [each for each in crds if each.name not in (SCHEMA, CONVERT)]
    with TemporaryDirectory() as temporary:
        try:
            found = [_checked_out(state, each, Path(temporary) / str(at)) for at, each in enumerate(folders)]
            short = [
                _checked_out(state, each, Path(temporary) / f"templates-{at}") for at, each in enumerate(templates)
            ]
            return read_crds([*found, *schema_files(short)])
        except CommandError as error:
            raise CommandError(_of_revision(str(error), state, temporary), code=error.code) from error


def _of_revision(message: str, revision: str, temporary: str) -> str:
    """The message with the names of files in the revision."""
    return re.sub(rf"{re.escape(temporary)}/(?:templates-)?[0-9]+/", f"{revision}:", message)


def _checked_out(revision: str, folder: Path, target: Path) -> Path:
    """Write what a folder or file had in a revision, as far as it may be CRDs, and return its new place."""
    place = folder.resolve()
    root = next(each for each in (place, *place.parents) if each.is_dir())
    if revision.startswith("-"):
        raise CommandError(f"there is no folder, file or revision {revision}", code=2)
    top = Path(_git(root, revision, "rev-parse", "--show-toplevel").decode().strip())
    _git(root, revision, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    below = place.relative_to(top.resolve()).as_posix()
    names = _git(top, revision, "ls-tree", "--name-only", "-z", "-r", "--full-tree", revision, "--", below)
    for name in names.decode().split("\0"):
        file = PurePosixPath(name)
        if file.name == SCHEMA or (file.suffix in SUFFIXES and below in (name, file.parent.as_posix())):
            written = target / name
            written.parent.mkdir(parents=True, exist_ok=True)
            written.write_bytes(_git(top, revision, "show", f"{revision}:{name}"))
    return target / below


def _git(folder: Path, revision: str, *arguments: str) -> bytes:
    try:
        # The revision is no option, and names no command.
        command = ["git", "-C", str(folder), *arguments]
        return subprocess.run(command, capture_output=True, check=True).stdout  # noqa: S603
    except FileNotFoundError:
        raise CommandError(f"there is no folder or file {revision}, and git is not installed", code=2) from None
    except subprocess.CalledProcessError as error:
        why = error.stderr.decode(errors="replace").strip()
        raise CommandError(
            f"there is no folder, file or revision {revision}" + (f" ({why})" if why else ""), code=2
        ) from error
