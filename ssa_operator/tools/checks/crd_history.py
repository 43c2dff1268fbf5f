"""What changed in CRDs since an earlier state of them, for `check --against`.

Promises:
- The earlier state is a folder or file, or a revision of git, of which only the CRDs are read.
- A CRD that is missing now is a finding.
- A revision that git doesn't know, and an earlier CRD that can't be read, is an error and not an empty state.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

from ssa_operator.objects.render_result import Document
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.object_files import SUFFIXES, FileError, objects
from ssa_operator.schema.crd_changes import crd_changes
from ssa_operator.tools.findings.findings import Finding
from ssa_operator.tools.offline.template_folders import read_crds


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
            Finding(code=each.code, message=f"{name}: {each.message}", location=found.location_of(each.path))
            for each in crd_changes(earlier.body, found.body)
        ]
    return findings


def earlier_crds(state: str, crds: Sequence[Path]) -> list[Document]:
    """The CRDs of a folder or file, or as they were in a revision of git. Raises CommandError."""
    path = Path(state)
    if path.exists():
        below = path / "crds"
        return read_crds([below if below.is_dir() else path])
    return [document for folder in crds for document in _in_revision(state, folder)]


def _in_revision(revision: str, folder: Path) -> Iterable[Document]:
    """The CRDs that a folder or file had in a revision."""
    place = folder.resolve()
    root = next(each for each in (place, *place.parents) if each.is_dir())
    if revision.startswith("-"):
        raise CommandError(f"there is no folder, file or revision {revision}", code=2)
    top = Path(_git(root, revision, "rev-parse", "--show-toplevel").strip())
    _git(root, revision, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    below = place.relative_to(top.resolve()).as_posix()
    names = _git(top, revision, "ls-tree", "--name-only", "-z", "-r", "--full-tree", revision, "--", below)
    for name in names.split("\0"):
        direct = PurePosixPath(name).parent.as_posix() == below or name == below
        if name.endswith(SUFFIXES) and direct:
            text = _git(top, revision, "show", f"{revision}:{name}")
            try:
                yield from (each for each in objects(text, f"{revision}:{name}") if _is_crd(each))
            except FileError as error:
                raise CommandError(str(error)) from error


def _is_crd(document: Document) -> bool:
    return str(document.body["kind"]) == "CustomResourceDefinition"


def _git(folder: Path, revision: str, *arguments: str) -> str:
    try:
        # The revision is no option, and names no command.
        command = ["git", "-C", str(folder), *arguments]
        done = subprocess.run(command, capture_output=True, check=True)  # noqa: S603
        return done.stdout.decode()
    except FileNotFoundError:
        raise CommandError(f"there is no folder or file {revision}, and git is not installed", code=2) from None
    except UnicodeDecodeError:
        raise CommandError(f"a CRD of {revision} is not UTF-8 text") from None
    except subprocess.CalledProcessError as error:
        why = error.stderr.decode(errors="replace").strip()
        raise CommandError(
            f"there is no folder, file or revision {revision}" + (f" ({why})" if why else ""), code=2
        ) from error
