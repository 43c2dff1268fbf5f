"""The watch reports every kind of change of the templates folder."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssa_operator.rendering.folder.folder_snapshot import FolderState, files_state
from ssa_operator.rendering.folder.hot_reload import LIMIT, SETTLED, VANISHED, Burst, Standstill, changes
from ssa_operator.rendering.folder.loaded_folders import load
from tests.rendering.folder.test_loaded_folders import ECHOES, config_map_mount, write
from tests.rendering.template_files import HEAD

PATIENCE = 30


@asynccontextmanager
async def watching(root: Path) -> AsyncGenerator[AsyncIterator[Burst | None], None]:
    """The changes of `root` after the first yield."""
    watched = changes([root])
    try:
        await asyncio.wait_for(anext(watched), PATIENCE)
        yield watched
    finally:
        await watched.aclose()  # type: ignore[attr-defined]


async def change(watched: AsyncIterator[Burst | None]) -> Burst:
    burst = await asyncio.wait_for(anext(watched), PATIENCE)
    assert burst is not None
    return burst


async def test_a_written_a_renamed_and_a_removed_file_are_changes(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD})
    async with watching(tmp_path) as watched:
        write(tmp_path, {f"{ECHOES}/a.yaml": HEAD + "v: 1\n"})
        await change(watched)
        write(tmp_path, {"others/deep/.b.yaml": HEAD})
        (tmp_path / "others/deep/.b.yaml").rename(tmp_path / "others/deep/b.yaml")
        await change(watched)
        (tmp_path / ECHOES / "a.yaml").unlink()
        await change(watched)


@pytest.mark.exhaustive
async def test_a_slow_copy_is_loaded_once_it_is_whole_and_a_deleted_file_soon(tmp_path: Path) -> None:
    names = {f"{name}.yaml" for name in "abcdef"}
    folder = tmp_path / ECHOES
    write(tmp_path, {f"{ECHOES}/{name}": HEAD for name in names})
    loaded: list[set[str]] = []
    changed = asyncio.Event()

    async def follow() -> None:
        async for _ in changes([tmp_path]):
            loaded.append({path.name for path in folder.iterdir()} if folder.exists() else set())
            changed.set()

    following = asyncio.create_task(follow())
    try:
        async with asyncio.timeout(PATIENCE):
            await changed.wait()
            changed.clear()
            shutil.rmtree(folder)
            for name in sorted(names):
                await asyncio.sleep(0.2)  # the pace of the copy
                write(tmp_path, {f"{ECHOES}/{name}": HEAD + "v: 1\n"})
            await changed.wait()
            changed.clear()
            (folder / "a.yaml").unlink()
            await changed.wait()
    finally:
        following.cancel()
    assert loaded == [names, names, names - {"a.yaml"}]


async def test_a_load_during_which_a_copy_begins_is_repeated_once_it_is_whole(tmp_path: Path) -> None:
    names = ["a.yaml", "b.yaml"]
    for root in ("one", "two"):
        write(tmp_path / root, {f"{ECHOES}/{name}": HEAD for name in names})
    known = files_state([tmp_path / "one", tmp_path / "two"])
    watched = changes([tmp_path / "one", tmp_path / "two"], known=known)
    write(tmp_path / "one", {f"{ECHOES}/a.yaml": HEAD + "v: 1\n"})
    burst = await change(watched)
    (tmp_path / "two" / ECHOES / "b.yaml").unlink()
    assert not burst.stands_still()
    following = asyncio.ensure_future(change(watched))
    await asyncio.sleep(0.2)  # the pace of the copy
    write(tmp_path / "two", {f"{ECHOES}/b.yaml": HEAD + "v: 1\n"})
    burst = await following
    assert (tmp_path / "two" / ECHOES / "b.yaml").exists()
    assert burst.stands_still()
    await watched.aclose()  # type: ignore[attr-defined]


async def test_a_change_between_the_load_and_the_watch_is_not_missed(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD})
    seen = []
    async with asyncio.timeout(PATIENCE):
        async for _ in changes([tmp_path]):
            seen.append(load(tmp_path).folders[ECHOES].digest)
            if len(seen) == 2:
                break
            write(tmp_path, {f"{ECHOES}/a.yaml": HEAD + "v: 1\n"})
    assert seen[0] != seen[1]


async def test_the_swap_of_a_mounted_config_map_is_a_change(tmp_path: Path) -> None:
    config_map_mount(tmp_path / ECHOES, "2026_1", {"a.yaml": HEAD})
    async with watching(tmp_path) as watched:
        config_map_mount(tmp_path / ECHOES, "2026_2", {"a.yaml": HEAD + "v: 2\n"})
        await change(watched)


@pytest.mark.exhaustive
async def test_a_folder_that_is_made_later_vanishes_and_returns_is_watched(tmp_path: Path) -> None:
    root = tmp_path / "not" / "yet" / "templates"
    async with watching(root) as watched:
        write(root, {f"{ECHOES}/a.yaml": HEAD})
        await change(watched)
        root.rename(tmp_path / "away")
        await change(watched)
        (tmp_path / "away").rename(root)
        await change(watched)
        write(root, {f"{ECHOES}/a.yaml": HEAD + "v: 1\n"})
        await change(watched)


async def test_a_change_is_reported_by_an_event_and_not_only_by_polling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ssa_operator.rendering.folder.hot_reload._POLL_INTERVAL", 1000 * PATIENCE * 10)
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD})
    async with watching(tmp_path) as watched:
        noticed = asyncio.ensure_future(change(watched))
        number = 0
        while not noticed.done():  # no event reports that the watch has begun
            number += 1
            write(tmp_path, {f"{ECHOES}/a.yaml": HEAD + f"v: {number}\n"})
            await asyncio.wait([noticed], timeout=0.2)
        await noticed


async def test_files_that_are_no_templates_are_no_change(tmp_path: Path) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD})
    async with watching(tmp_path) as watched:
        write(tmp_path, {f"{ECHOES}/.a.yaml.swp": "x", f"{ECHOES}/4913": "x", f"{ECHOES}/a.yaml~": "x"})
        following = asyncio.ensure_future(anext(watched))
        write(tmp_path, {f"{ECHOES}/b.yaml": HEAD})
        await asyncio.wait_for(following, PATIENCE)
        assert set(load(tmp_path).folders[ECHOES].files) == {"a.yaml", "b.yaml"}


async def test_a_watch_that_is_cancelled_ends(tmp_path: Path) -> None:
    async with watching(tmp_path) as watched:
        waiting = asyncio.ensure_future(anext(watched))
        await asyncio.sleep(0)
        waiting.cancel()
        (ended,) = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError)


@pytest.mark.exhaustive
async def test_a_file_of_values_is_watched_through_links_and_while_it_is_gone(tmp_path: Path) -> None:
    config_map_mount(tmp_path / "mount", "2026_1", {"v.yaml": "a: 1\n"})
    watched = changes([], [tmp_path / "mount" / "v.yaml"])
    try:
        await asyncio.wait_for(anext(watched), PATIENCE)
        config_map_mount(tmp_path / "mount", "2026_2", {"v.yaml": "a: 2\n"})
        await change(watched)
        (tmp_path / "mount").rename(tmp_path / "away")
        await change(watched)
        (tmp_path / "away").rename(tmp_path / "mount")
        await change(watched)
        write(tmp_path, {"mount/v.yaml": "a: 3\n"})
        await change(watched)
    finally:
        await watched.aclose()  # type: ignore[attr-defined]


# Without a watch of the system.

LIMITED = """
import asyncio, logging, pathlib, sys
from ssa_operator.rendering.folder.hot_reload import changes

logging.basicConfig(format="%(message)s")
pathlib.Path("/proc/sys/user", sys.argv[1]).write_text("0")

async def main():
    root = pathlib.Path(sys.argv[2])
    values = root / "values.yaml"
    for watched, written in ((changes([root]), root / "b.yaml"), (changes([], [values]), values)):
        await anext(watched)
        written.write_text("v: 1")
        await anext(watched)
        print(written.name, flush=True)

asyncio.run(asyncio.wait_for(main(), 30))
"""


@pytest.mark.more_cases
@pytest.mark.parametrize("limit", ["max_inotify_instances", "max_inotify_watches"])
def test_without_a_watch_of_the_system_changes_are_found_and_the_log_says_what_to_do(
    limit: str, tmp_path: Path
) -> None:
    """The limits of a user namespace of its own hold for one process tree."""
    own_namespace = ["unshare", "--user", "--map-root-user"]
    if shutil.which("unshare") is None or subprocess.run([*own_namespace, "true"], check=False).returncode:
        pytest.skip("this system lets no user create a user namespace")
    command = [*own_namespace, sys.executable, "-c", LIMITED, limit, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["b.yaml", "values.yaml"], done.stderr
    first, second = done.stderr.splitlines()
    assert first.startswith(f"{tmp_path}: the system has no watch for it")
    assert "raise fs.inotify.max_user_instances" in second


@pytest.mark.parametrize(
    "failure", [OSError("no space left"), RuntimeError("too many open files"), ExceptionGroup("", [OSError("died")])]
)
async def test_a_watch_that_fails_at_any_time_is_replaced_by_polling(
    failure: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, {f"{ECHOES}/a.yaml": HEAD})

    async def failing(*_: object, **__: object) -> AsyncIterator[set[object]]:
        yield set()
        write(tmp_path, {f"{ECHOES}/a.yaml": f"{HEAD}v: 0\n"})
        raise failure

    monkeypatch.setattr("ssa_operator.rendering.folder.hot_reload.awatch", failing)
    async with watching(tmp_path) as watched:
        await change(watched)
        write(tmp_path, {f"{ECHOES}/a.yaml": f"{HEAD}v: 1\n"})
        await change(watched)
    assert caplog.text.count("the system has no watch for it") == 1


def state(*names: str, version: int = 0, size: int = 1) -> FolderState:
    return dict.fromkeys(names, (1, 1, size, version))


FULL = state("a", "b", "c")


def followed(*steps: tuple[float, FolderState]) -> Standstill:
    """A folder that was loaded with three files at 0, and then had these states, each from a time on."""
    found = Standstill.of(FULL, 0.0)
    for now, each in steps:
        found = found.seen(each, now)
    return found


def test_the_content_of_one_file_is_loaded_at_once() -> None:
    assert followed((7.0, {**FULL, **state("b", version=1)})).due == 7.0


def test_what_is_as_it_was_is_not_loaded() -> None:
    assert followed((7.0, state("a")), (8.0, FULL)).due is None


def test_several_changes_and_new_files_are_loaded_once_they_stand_still() -> None:
    assert followed((7.0, state("a", "b", "c", version=1))).due == 7.0 + SETTLED
    assert followed((7.0, {**FULL, **state("d")})).due == 7.0 + SETTLED


def test_a_folder_that_keeps_changing_is_loaded_after_a_limit() -> None:
    assert followed(*((7.0 + at / 4, state("a", "b", "c", version=at)) for at in range(1, 99))).due == 7.25 + LIMIT


def test_a_deleted_file_is_loaded_after_a_while_also_if_another_one_keeps_changing() -> None:
    touched = ((7.0 + at / 4, state("a", "b", version=at)) for at in range(99))
    assert followed(*touched).due == 7.0 + VANISHED


def test_a_vanished_folder_and_an_emptied_file_are_given_time() -> None:
    assert followed((7.0, {})).due == 7.0 + VANISHED
    assert followed((7.0, {**FULL, **state("b", size=0)})).due == 7.0 + VANISHED


@given(
    st.permutations(sorted(FULL)),
    st.lists(st.floats(0.01, VANISHED * 0.99), min_size=4, max_size=4),
    st.booleans(),
    st.booleans(),
)
def test_a_slow_copy_is_never_loaded_without_a_file_that_it_has(
    order: list[str], pauses: list[float], emptied: bool, gone: bool
) -> None:
    """The folder is removed, and its files come back one by one, each empty at first."""
    found, now = followed((1.0, {} if gone else dict.fromkeys(["folder/"], (1, 1)))), 1.0
    copied: FolderState = {}
    for name, pause in zip(order, pauses, strict=False):
        if emptied:
            now += pause / 2
            assert found.due is None or found.due > now
            found = found.seen({**copied, **state(name, version=1, size=0)}, now)
        now += pause / 2
        assert found.due is None or found.due > now
        copied = {**copied, **state(name, version=1)}
        found = found.seen(copied, now)
    assert found.due is not None
    assert found.due <= now + VANISHED
    assert found.found == copied
