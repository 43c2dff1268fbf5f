"""Completion in real shells: what is completed is one word, and no shell runs a part of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer._click.shell_completion import CompletionItem
from typer._completion_shared import get_completion_script
from typer.main import get_command

from ssa_operator.cli.main import application_of
from ssa_operator.cli.shell_completion import Kubectl, _PowerShell, quoted
from tests.operator.harness import PATIENCE

NAMES = {
    "commands": "$(touch pwned)`touch pwned`;touch pwned&touch pwned|touch pwned",
    "signs": "a b'c\"d:e*f?g[h]~{i,j}\\k!l#m<n>o$p=q%r^s",
    "resource": "echoes.example.com",
}
"""Names of template folders."""

HIDDEN = ["a\n$(touch pwned)", "a\x1b[2J", "a\u202eb"]
"""Names that are not completed."""

SHELLS = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source ./completion"),
    "zsh": (["zsh", "-f", "-i"], "autoload -U compinit; compinit -u -D; source ./completion"),
    "fish": (["fish", "--no-config", "-i"], "source ./completion"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(NAMES[key], marks=() if key == "commands" else pytest.mark.slow, id=key) for key in NAMES]
)
@pytest.mark.parametrize("shell", SHELLS)
async def test_what_a_shell_completes_is_one_word_that_it_does_not_run(shell: str, name: str, tmp_path: Path) -> None:
    command, setup = SHELLS[shell]
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}; apt-get install {shell}")
    for folder in (name, *HIDDEN):
        (tmp_path / "templates" / folder).mkdir(parents=True)
    # The program completes as users' does, and otherwise writes its arguments.
    program = tmp_path / "bin" / "ssa-operator"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\n[ -n "$_SSA_OPERATOR_COMPLETE" ] && exec {sys.executable} -c '
        '\'import sys; sys.argv[0] = "ssa-operator"; from ssa_operator.cli.main import main; main()\' "$@"\n'
        'for each in "$@"; do printf "%s\\0" "$each"; done > arguments.new; mv arguments.new arguments\n'
    )
    program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "TERM": "xterm",
    }
    script = get_completion_script(prog_name="ssa-operator", complete_var="_SSA_OPERATOR_COMPLETE", shell=shell)
    (tmp_path / "completion").write_text(script)
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(
        *command, cwd=tmp_path, env=environment, preexec_fn=partial(os.login_tty, theirs)
    )
    os.close(theirs)
    shown = bytearray()
    loop = asyncio.get_running_loop()

    def read() -> None:
        try:
            shown.extend(os.read(ours, 65536))
        except OSError:
            loop.remove_reader(ours)

    loop.add_reader(ours, read)
    try:
        os.write(ours, f"{setup}; echo rea''dy\n".encode())
        await _until(lambda: b"ready\r" in shown, shown)
        os.write(ours, b"ssa-operator tree \t\n")
        await _until((tmp_path / "arguments").exists, shown)
        assert (tmp_path / "arguments").read_bytes().decode().split("\0")[:-1] == ["tree", name], shown.decode()
        assert not (tmp_path / "pwned").exists()
    finally:
        loop.remove_reader(ours)
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        os.close(ours)


async def _until(condition: object, shown: bytearray) -> None:
    assert callable(condition)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE):
            while not condition():  # noqa: ASYNC110 - a shell announces nothing
                await asyncio.sleep(0.02)
    assert condition(), shown.decode(errors="replace")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_a_quoted_word_has_neither_blanks_nor_wildcards(word: str) -> None:
    found = quoted(word)
    inner = found.removeprefix("$'").removesuffix("'") if found != word else ""
    assert not set(inner) - {"\\"} - {each for each in inner if each.isalnum()}


def test_bash_reads_a_quoted_word_as_it_was() -> None:
    words = [*NAMES.values(), "é 日本", "'", "$'a'", "\\x41"]
    script = "printf '%s\\0' " + " ".join(map(quoted, words))
    assert subprocess.check_output(["bash", "-c", script]).decode().split("\0")[:-1] == words


def test_kubectl_gets_plain_words_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (*NAMES.values(), *HIDDEN):
        (tmp_path / "templates" / folder).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["kubectl_complete-ssa", "tree", ""])
    assert Kubectl(get_command(application_of()), {}, "kubectl ssa", "").complete() == "echoes.example.com"


def test_powershell_gets_quoted_words() -> None:
    shell = _PowerShell(get_command(application_of()), {}, "ssa-operator", "")
    shown = [shell.format_completion(CompletionItem(each)) for each in ("a.b", "$(a) 'b\u2019", "@a")]
    assert shown == ["a.b::: ", "'$(a) ''b\u2019\u2019'::: ", "'@a'::: "]
