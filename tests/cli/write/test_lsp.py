"""`ssa-operator lsp`: the language server as an editor starts it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.cli.write.lsp import lsp
from ssa_operator.operator.process.streams import CommandError
from tests.cli.write.test_check_on_server import WEB, alone
from tests.devcluster.waiting import until
from tests.operator.harness import PATIENCE, ROOT


class Editor:
    """An editor that speaks with the server over its standard input and output."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._number = 0
        self._versions: dict[Path, int] = {}
        self.messages: list[dict[str, Any]] = []

    async def _send(self, **message: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        await self._process.stdin.drain()

    async def _receive(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        length = 0
        while line := (await self._process.stdout.readline()).strip():
            name, _, value = line.partition(b":")
            length = int(value) if name.lower() == b"content-length" else length
        assert length, "the server ended"
        message: dict[str, Any] = json.loads(await self._process.stdout.readexactly(length))
        self.messages.append(message)
        return message

    async def notify(self, method: str, **params: Any) -> None:
        await self._send(method=method, params=params)

    async def answer(self, method: str, params: Any) -> dict[str, Any]:
        """The answer to a request: a result or an error."""
        self._number += 1
        await self._send(id=self._number, method=method, params=params)
        async with asyncio.timeout(PATIENCE):
            while (message := await self._receive()).get("id") != self._number or "method" in message:
                pass
        return message

    async def request(self, method: str, **params: Any) -> Any:
        """The result of a request."""
        message = await self.answer(method, params)
        assert "error" not in message, message
        return message["result"]

    async def exit_code(self) -> int:
        """What the server ends with."""
        async with asyncio.timeout(PATIENCE):
            return await self._process.wait()

    async def at(self, method: str, path: Path, line: int, character: int) -> Any:
        """The result of a request about a place in a file."""
        place = {"line": line, "character": character}
        return await self.request(f"textDocument/{method}", textDocument={"uri": path.as_uri()}, position=place)

    async def open(self, path: Path, text: str) -> None:
        self._versions[path] = 1
        document = {"uri": path.as_uri(), "languageId": "yaml", "version": 1, "text": text}
        await self.notify("textDocument/didOpen", textDocument=document)

    async def change(self, path: Path, *changes: dict[str, Any]) -> None:
        self._versions[path] += 1
        document = {"uri": path.as_uri(), "version": self._versions[path]}
        await self.notify("textDocument/didChange", textDocument=document, contentChanges=changes)

    async def problems(self, path: Path) -> list[dict[str, Any]]:
        """The next diagnostics of a file."""
        async with asyncio.timeout(PATIENCE):
            while True:
                message = await self._receive()
                found = message.get("params", {})
                if message.get("method") == "textDocument/publishDiagnostics" and found["uri"] == path.as_uri():
                    return list(found["diagnostics"])


@asynccontextmanager
async def started(
    api_server: str = "never", **environment: str
) -> AsyncIterator[tuple[Editor, asyncio.subprocess.Process]]:
    """An editor with its server."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ssa_operator", "lsp", "--stdio", f"--api-server={api_server}"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"KUBECONFIG": "/nowhere"} | environment,
    )
    try:
        yield Editor(process), process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def initialize(one: Editor, process_id: int | None = None, **capabilities: Any) -> None:
    params = {"processId": process_id, "rootUri": None, "capabilities": capabilities}
    one.messages.append(await one.request("initialize", **params))
    await one.notify("initialized")


@asynccontextmanager
async def editor(**capabilities: Any) -> AsyncIterator[Editor]:
    """An editor with a server that is initialized. Both end well."""
    async with started() as (found, _):
        await initialize(found, **capabilities)
        yield found
        assert await found.request("shutdown") is None
        await found.notify("exit")
        assert await found.exit_code() == 0


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the template folder of Echo."""
    for name in ("templates/echoes.example.com", "crds/echoes.example.com.yaml", "examples/echo.yaml"):
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, target)
    return tmp_path.resolve()


def place(text: str, words: str, *, after: bool = True) -> tuple[int, int]:
    """The line and the character after some words of a text, or before them."""
    before = text[: text.index(words) + (len(words) if after else 0)]
    return before.count("\n"), len(before) - before.rfind("\n") - 1


async def test_an_editor_sees_findings_of_unsaved_texts_and_repairs_them(project: Path) -> None:
    path = project / "templates/echoes.example.com/deployment.yaml.j2"
    good = path.read_text()
    broken = good.replace("{{ spec.replicas }}", "{{ spec.replica }}")
    async with editor() as one:
        await one.open(path, broken)
        [problem] = [each for each in await one.problems(path) if each["code"] == "undeclared-field"]
        line, character = place(broken, "{{ spec.replica }}", after=False)
        assert problem["range"]["start"] == {"line": line, "character": character + 3}
        assert problem["severity"] == 1
        assert problem["source"] == "ssa-operator"
        assert "did you mean spec.replicas?" in problem["message"]
        actions = await one.request(
            "textDocument/codeAction",
            textDocument={"uri": path.as_uri()},
            range=problem["range"],
            context={"diagnostics": [problem]},
        )
        [edit] = actions[0]["edit"]["changes"][path.as_uri()]
        assert edit["newText"] == "spec.replicas"
        await one.change(path, {"range": edit["range"], "text": edit["newText"]})
        assert await one.problems(path) == []
        assert path.read_text() == good

        line, character = place(good, "{{ spec.")
        found = await one.at("completion", path, line, character)
        replicas = next(each for each in found if each["label"] == "replicas")
        assert (replicas["detail"], replicas["textEdit"]["newText"]) == ("integer", "replicas")
        assert replicas["documentation"]["value"].startswith("Number of pods.")
        shown = await one.at("hover", path, line, character + 1)
        assert "spec.replicas: integer" in shown["contents"]["value"]
        assert "`spec.replicas: 2` in Deployment hello" in shown["contents"]["value"]
        crd = project / "crds/echoes.example.com.yaml"
        [target] = await one.at("definition", path, line, character + 1)
        assert target["uri"] == crd.as_uri()
        begin = target["range"]["start"]
        assert crd.read_text().splitlines()[begin["line"]][begin["character"] :] == "replicas:"

        async def references(*, declaration: bool) -> list[Any]:
            of = {"textDocument": {"uri": crd.as_uri()}, "position": begin}
            found = await one.request("textDocument/references", **of, context={"includeDeclaration": declaration})
            return [(each["uri"], each["range"]["start"]["line"]) for each in found]

        assert await references(declaration=False) == [(path.as_uri(), line)]
        assert await references(declaration=True) == [(crd.as_uri(), begin["line"]), (path.as_uri(), line)]
        [symbol] = await one.request("textDocument/documentSymbol", textDocument={"uri": path.as_uri()})
        assert symbol["name"] == "Deployment {{ name }}"


async def test_positions_count_utf_16_and_a_broken_text_stops_nothing(project: Path) -> None:
    link = project.parent / "link"
    link.symlink_to(project, target_is_directory=True)
    path = link / "templates/echoes.example.com/deployment.yaml.j2"
    async with editor() as one:
        await one.open(path, "# \U0001d538 \U0001d538\n" + path.read_text() + "{% if \n")
        [problem] = await one.problems(path)  # under the address that the editor uses
        assert problem["code"] == "template-error"
        await one.change(path, {"text": "a: {{ '\U0001d538\U0001d538' ~ spec. }}"})
        [problem] = await one.problems(path)
        after_dot = len("a: {{ 'xxxx' ~ spec.")  # each of the two characters counts twice
        assert [each["label"] for each in await one.at("completion", path, 0, after_dot)] == ["replicas"]
        await one.change(path, {"text": "{{"})
        assert await one.at("hover", path, 7, 99) is None
        assert await one.at("definition", path, 0, 2) == []


@pytest.mark.parametrize(("encoding", "size"), [("utf-8", 4), ("utf-16", 2), ("utf-32", 1)])
async def test_columns_behind_an_emoji_count_what_was_agreed_on(project: Path, encoding: str, size: int) -> None:
    path = project / "templates/echoes.example.com/deployment.yaml.j2"
    async with editor(general={"positionEncodings": [encoding]}) as one:
        agreed = next(each["capabilities"] for each in one.messages if "capabilities" in each)
        assert agreed["positionEncoding"] == encoding
        await one.open(path, "a: {{ '\U0001f600' ~ spec.replica }}")
        [problem, *_] = await one.problems(path)
        field = len("a: {{ '' ~ ") + size
        assert problem["range"]["start"] == {"line": 0, "character": field}
        assert problem["range"]["end"] == {"line": 0, "character": field + len("spec.replica")}
        # An edit behind it, and a question about its place.
        edit = {"start": {"line": 0, "character": field}, "end": problem["range"]["end"]}
        await one.change(path, {"range": edit, "text": "spec.replicas"})
        shown = await one.at("hover", path, 0, field + len("spec.replicas") - 1)
        assert "spec.replicas: integer" in shown["contents"]["value"]
        assert shown["range"]["end"] == {"line": 0, "character": field + len("spec.replicas")}


async def test_a_request_that_the_protocol_forbids_has_an_error_as_its_answer(project: Path) -> None:
    async with started() as (one, _):
        path = project / "templates/echoes.example.com/deployment.yaml.j2"
        hover = {"textDocument": {"uri": path.as_uri()}, "position": {"line": 0, "character": 0}}
        assert (await one.answer("textDocument/hover", hover))["error"]["code"] == -32002  # not initialized
        await initialize(one)
        for wrong in ({**hover, "position": "here"}, {}, 5):
            assert (await one.answer("textDocument/hover", wrong))["error"]["code"] == -32602  # invalid params
        for params in ({"a": 1}, None):
            assert (await one.answer("textDocument/nothing", params))["error"]["code"] == -32601  # no such method
        assert "result" in await one.answer("textDocument/hover", hover)
        assert (await one.answer("shutdown", None))["result"] is None
        error = (await one.answer("textDocument/hover", hover))["error"]
        assert (error["code"], error["message"]) == (-32600, "the server was told to shut down")
        await one.notify("exit")
        assert await one.exit_code() == 0


@pytest.mark.cluster
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("killed", [False, True])
async def test_an_editor_sees_what_an_api_server_refuses_which_ends_with_it(
    project: Path, tmp_path_factory: pytest.TempPathFactory, killed: bool
) -> None:
    template, elsewhere = project / "templates/echoes.example.com/web.yaml.j2", tmp_path_factory.mktemp("elsewhere")
    template.write_text(WEB)
    async with started("auto", **alone(elsewhere)) as (one, process):
        await initialize(one)
        await one.open(template, WEB)
        while not (found := [each for each in await one.problems(template) if each["severity"] == 1]):
            pass  # the server starts meanwhile
        line = found[0]["range"]["start"]["line"]
        assert (line, found[0]["message"]) == (
            5,
            "Deployment web: spec.progressDeadlineSeconds is 5: must be greater than minReadySeconds",
        )
        await one.change(template, {"text": WEB.replace("progressDeadlineSeconds: 5", "progressDeadlineSeconds: 50")})
        assert not [each for each in await one.problems(template) if each["severity"] == 1]
        if killed:
            process.kill()
        else:
            await one.request("shutdown")
            await one.notify("exit")
            assert await one.exit_code() == 0
    await until(lambda: not list((elsewhere / "scratch").iterdir()))


async def test_an_exit_without_shutdown_is_a_failure() -> None:
    async with started() as (one, _):
        await initialize(one)
        await one.notify("exit")
        assert await one.exit_code() == 1


async def test_the_server_ends_with_its_standard_input() -> None:
    async with started() as (one, process):
        await initialize(one)
        assert process.stdin is not None
        process.stdin.close()
        assert await one.exit_code() == 1


async def test_the_server_ends_with_the_process_that_started_it() -> None:
    editor = await asyncio.create_subprocess_exec("sleep", "600")
    try:
        async with started() as (one, _):
            await initialize(one, editor.pid)
            editor.kill()
            await editor.wait()
            assert await one.exit_code() == 1  # although its standard input is still open
    finally:
        if editor.returncode is None:
            editor.kill()


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lsprotocol", None)
    monkeypatch.delitem(sys.modules, "ssa_operator.tools.editor.server", raising=False)
    with pytest.raises(CommandError, match=r"install it with: pip install 'ssa-operator\[lsp\]'") as raised:
        lsp()
    assert raised.value.code == 2
