"""Runs the commands that a page tells its reader to type, and writes what they print into the page.

Promises:
- The commands run on a real control plane with a real operator, in a copy of the checkout's templates and examples.
- The pages share the control plane and the CRDs of the checkout. All else that a page leaves behind is deleted before
  the next one.
- A template or an example that the page shows after its path is saved there before the commands after it run.
- Output that differs only in times, addresses, ages, random names and the width of columns stays as it is in the page.
- A command that reads is repeated until it prints what the page shows. It gets another output only if that lasts: under
  load, a state on the way lasts for some seconds, too.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ssa_operator.devcluster.cluster import ClusterSpec, start

ROOT = Path(__file__).parents[2]
PARTS = ("templates", "crds", "examples")
"""The folders that the commands of the pages use."""

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_STEP = re.compile(
    r"^```console\n(?P<console>.*?)^```$|`(?P<path>(?:templates|examples)/\S+)`:\n\n```(?!console)\w+\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
_START = re.compile(r"^ssa-operator dev .*--examples (\S+)$", re.MULTILINE)
_OWN_PROJECT = "```sh\nssa-operator dev\n```\n"
"""The block with which a page starts an operator for the project that its reader made in an empty folder."""
_READS = re.compile(
    r"^(kubectl (get|events)|ssa-operator (status|tree|blame|graph|render|diff|plan|rollout (status|history))|"
    r"kubectl ssa)\b"
)

_PASSING = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z"), "<time>"),
    (re.compile(r"\b(?:\d+\.){3}\d+\b"), "<address>"),
    (re.compile(r"\b(?:\d+[dhms])+\b"), "<age>"),
    # The alphabet of names that Kubernetes draws: k8s.io/apimachinery/pkg/util/rand.
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "-<random>"),
    (re.compile(r"[ \t]+"), " "),
)
"""What another run prints otherwise: moments, addresses, ages, random names, and the width of columns."""

LASTING = 3
"""How often in a row a command that reads has to print the same, if the page shows no output yet."""

LASTING_CHANGE = 30
"""How often in a row a command that reads has to print the same, if the page shows another output."""

PAUSE = 1.0
"""Seconds between two runs of a command that reads."""

PATIENCE = 90
"""Runs after which the present output of a command that reads is taken, even if it still changes."""

LIMIT = 300
"""Seconds after which a command that has not ended fails."""

Run = Callable[[str], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Command:
    """One command and the output that the page shows."""

    text: str
    output: str

    @property
    def reads(self) -> bool:
        """Whether the command changes nothing, so that it can be repeated."""
        return _READS.match(self.text) is not None

    @property
    def prepares(self) -> bool:
        """Whether the command sets up the reader's shell."""
        return self.text.startswith("export ")

    def __str__(self) -> str:
        return f"$ {self.text}\n{self.output}"


def pages() -> list[Path]:
    """All pages with commands."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
    return [page for page in found if _BLOCK.search(page.read_text(encoding="utf-8"))]


def resource(page: Path) -> str:
    """The file whose objects exist before the first command of a page."""
    found = _START.findall(page.read_text(encoding="utf-8"))
    return str(found[0]) if found else "examples/echo.yaml"


def commands(page: Path) -> Iterator[Command]:
    """All commands of a page, in order."""
    for block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        yield from _commands(block)


def _commands(block: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        text, _, output = part.partition("\n")
        yield Command(text, output)


def saved_files(page: Path) -> list[str]:
    """The texts of the files that a page has its reader save."""
    return [step["text"] for step in _STEP.finditer(page.read_text(encoding="utf-8")) if step["path"]]


def lasting(output: str) -> list[str]:
    """The lines of an output without what differs from run to run."""
    for pattern, word in _PASSING:
        output = pattern.sub(word, output)
    return [line.strip() for line in output.splitlines()]


async def rewritten(text: str, folder: Path, run: Run) -> str:
    """A page with what its commands print now. `run` runs a command in `folder` and returns its output."""
    parts, end = [], 0
    for step in _STEP.finditer(text):
        if step["path"]:
            path = folder / step["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step["text"], encoding="utf-8")
            continue
        block = "".join([str(await _again(each, run)) for each in _commands(step["console"])])
        parts += [text[end : step.start()], f"```console\n{block}```"]
        end = step.end()
    return "".join([*parts, text[end:]])


async def _again(command: Command, run: Run) -> Command:
    """The command with what it prints now, or as it was if that is the same but for what passes."""
    if command.prepares:
        return command
    output = await (_settled(command, run) if command.reads else _once(command, run))
    return command if lasting(output) == lasting(command.output) else Command(command.text, output)


async def _once(command: Command, run: Run) -> str:
    """The output of a command that may fail if the page shows that it does."""
    try:
        return await run(command.text)
    except CommandFailed as error:
        if not any(line.startswith("ssa-operator: ") for line in command.output.splitlines()):
            raise
        return error.output


async def _settled(command: Command, run: Run) -> str:
    """The output of a command that reads, once it is that of the page or lasts. Raises CommandFailed if the command
    fails until then.
    """
    output, same = "", 0
    wanted = LASTING_CHANGE if command.output else LASTING
    for _ in range(PATIENCE):
        try:
            before, output = output, await run(command.text)
        except CommandFailed:
            output, same = "", 0
        else:
            same = same + 1 if lasting(output) == lasting(before) else 1
            if same == wanted or lasting(output) == lasting(command.output):
                return output
        await asyncio.sleep(PAUSE)
    return output or await run(command.text)


class CommandFailed(RuntimeError):  # noqa: N818 - it may be what a later run of the command is for
    """A command of a page failed. The text has the command and its output."""

    def __init__(self, command: str, output: str) -> None:
        super().__init__(f"{command}: {output}")
        self.output = output


async def type_in(text: str, folder: Path, kubeconfig: Path, limit: float = LIMIT) -> str:
    """What a command prints that the reader types in a folder. Raises CommandFailed, for example if the command has not
    ended after `limit` seconds.
    """
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        text,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        cwd=folder,
        env={
            **os.environ,
            "KUBECONFIG": str(kubeconfig),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        },
        start_new_session=True,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), limit)
    except TimeoutError:
        raise CommandFailed(text, f"it has not ended after {limit:g} seconds") from None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode != 0:
        raise CommandFailed(text, out.decode())
    return out.decode()


def copied(folder: Path) -> Path:
    """A copy of what the commands of the pages use."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part)
    return folder


def options_of_run(folder: Path) -> list[str]:
    """The options of an operator that serves the templates of the project and of all examples."""
    templates = ["templates", *sorted(str(each.relative_to(folder)) for each in folder.glob("examples/*/templates"))]
    crds = ["crds", *sorted(str(each.relative_to(folder)) for each in folder.glob("examples/*/crds"))]
    return [*(f"--templates={each}" for each in templates), *(f"--crds={each}" for each in crds)]


@contextlib.asynccontextmanager
async def operator(folder: Path, kubeconfig: Path) -> AsyncIterator[None]:
    """An operator for the default namespace, from its first reconciles until the block ends."""
    options = ["--namespace=default", "--listen=", "--install-crds", f"--kubeconfig={kubeconfig}"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ssa_operator", "run", *options_of_run(folder), *options,
        cwd=folder, stderr=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        async for line in process.stderr:
            if b": starts with" in line:
                break
        log = asyncio.create_task(process.stderr.read())
        yield
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
        log.cancel()


async def made_again(names: Iterable[str]) -> Sequence[tuple[Path, str]]:
    """The pages that change when their commands run again, with their new text: of some pages, or of all."""
    chosen = {page: page.read_text(encoding="utf-8") for page in [ROOT / name for name in names] or pages()}
    changed: list[tuple[Path, str]] = []
    cluster = await start(ClusterSpec(name=f"transcripts-{os.getpid()}"))
    try:
        for page, text in chosen.items():
            with tempfile.TemporaryDirectory(prefix="ssa-operator-transcripts-") as temporary:
                new = await played(page, text, Path(temporary), cluster.kubeconfig)
            if new != text:
                changed.append((page, new))
    finally:
        await cluster.stop()
    return changed


async def played(page: Path, text: str, folder: Path, kubeconfig: Path) -> str:
    """The page with what its commands print, typed in an empty folder or in a copy of the checkout's."""
    try:
        return await _typed(page, text, folder, kubeconfig)
    finally:
        await _clear(folder, kubeconfig)


async def _clear(folder: Path, kubeconfig: Path) -> None:
    """Wait until the garbage collector has deleted the children, and delete the Events."""
    for command in (
        "kubectl wait --for=delete deployments,statefulsets,jobs,pods --all --timeout=2m",
        "kubectl delete events --all",
    ):
        with contextlib.suppress(CommandFailed):  # kubectl calls it an error if there is no object
            await type_in(command, folder, kubeconfig)


async def _typed(page: Path, text: str, folder: Path, kubeconfig: Path) -> str:
    before, block, after = text.partition(_OWN_PROJECT)
    if not block:
        async with operator(copied(folder), kubeconfig):
            return await on_cluster(page, text, folder, kubeconfig)

    async def run(command: str) -> str:
        return await type_in(command, folder, kubeconfig)

    made = await rewritten(before, folder, run)
    async with operator(folder, kubeconfig):
        await run("kubectl apply -f examples")
        try:
            return made + block + await rewritten(after, folder, run)
        finally:
            await run("kubectl delete --ignore-not-found --timeout=2m -f examples")
            await run("ssa-operator crds generate | kubectl delete --ignore-not-found --timeout=2m -f -")


async def on_cluster(page: Path, text: str, folder: Path, kubeconfig: Path) -> str:
    """The page with what its commands print, on a cluster with an operator. What the page applies is deleted."""

    async def run(command: str) -> str:
        return await type_in(command, folder, kubeconfig)

    objects = resource(page)
    await run(f"kubectl apply -f {objects}")
    try:
        return await rewritten(text, folder, run)
    finally:
        whole = page.parent.relative_to(ROOT) / "examples" if page.parent.parent == ROOT / "examples" else objects
        await run(f"kubectl delete --ignore-not-found --timeout=2m -f {whole}")
        # The page may have applied others.
        kinds = ",".join(each.partition("/")[2] for each in (await run("kubectl get crds --output=name")).split())
        await run(f"kubectl delete {kinds} --all --timeout=2m")
