"""The language server: when what is checked and answered.

Promises:
- An edit is checked once the user pauses for `PAUSE` seconds, and a check of an older text is interrupted.
- A check takes place beside the answers: completion and hover don't wait for it.
- A file without problems has an empty list, so that what was repaired disappears.
- An error of a rule is a line of the editor's log, without values, and the answer is empty. The server goes on.
- What an API server refuses is shown once it serves; no check waits for it.
- Standard output has the protocol alone.
- A request that the protocol forbids, or whose parameters are wrong, has an error as its answer.
- The server ends with its standard input, and with the process that started it. Without a shutdown before, the exit
  code is 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls import uris
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidParams,
    JsonRpcInvalidRequest,
    JsonRpcMethodNotFound,
    JsonRpcServerNotInitialized,
)
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol

from ssa_operator import __version__
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.values.limits import Interrupt, Interrupted, interruptible
from ssa_operator.tools.checks.api_server import WarmAPIServer
from ssa_operator.tools.editor.completion import completions
from ssa_operator.tools.editor.definitions import definition, references, symbols
from ssa_operator.tools.editor.diagnostics import Problems, problems_of
from ssa_operator.tools.editor.edited_project import (
    EditedProject,
    ProjectOptions,
    checked_files,
    load_project,
    templates_of,
)
from ssa_operator.tools.editor.expression_types import Reading
from ssa_operator.tools.editor.hover import hover
from ssa_operator.tools.editor.places import UTF_16, Target
from ssa_operator.tools.editor.protocol_values import OpenTexts, Places, place_of

PAUSE = 0.3
"""Seconds without an edit after which a text is checked."""

PARENT_INTERVAL = 2.0
"""Seconds between two looks whether the process that started the server still runs."""

Answer = TypeVar("Answer")

_WATCHED = "**/*.{yaml,yml,j2}"
_TRIGGERS = [".", "|", '"', "'", "/", " "]


@dataclass(slots=True)
class _Workspace:
    """What the server knows of one project."""

    templates: tuple[Path, ...]
    project: EditedProject | None = None
    problems: Problems = field(default_factory=dict)
    published: set[Path] = field(default_factory=set)
    """The files whose problems the editor shows."""
    check: asyncio.Task[None] | None = None


class _Protocol(LanguageServerProtocol):
    """Answers the requests that the library drops."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        try:
            return super().structure_message(data)
        except JsonRpcException:
            if "id" in data and (method := data.get("method")):
                known = self.get_message_type(method) is not None
                self._refuse(data["id"], JsonRpcInvalidParams() if known else JsonRpcMethodNotFound.of(method))
            raise

    def handle_message(self, message: Any) -> None:
        is_request = hasattr(message, "id") and hasattr(message, "method")
        if is_request and self._shutdown:
            self._refuse(message.id, JsonRpcInvalidRequest("the server was told to shut down"))
        elif is_request and self._workspace is None and message.method != types.INITIALIZE:
            self._refuse(message.id, JsonRpcServerNotInitialized())
        else:
            super().handle_message(message)

    def _refuse(self, number: int | str, error: JsonRpcException) -> None:
        self._send_response(number, error=error.to_response_error())


class TemplateServer(LanguageServer):
    """Serves one editor."""

    def __init__(self, options: ProjectOptions, api_server: WarmAPIServer | None = None) -> None:
        super().__init__("ssa-operator", __version__, protocol_cls=_Protocol)
        self.exit_code = 1
        self._following: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._api_server = api_server
        self._logged_note = ""
        self._options = options if api_server is None else dataclasses.replace(options, ask=api_server.refusals)
        self._workspaces: dict[tuple[Path, ...], _Workspace] = {}

    @property
    def encoding(self) -> str:
        """The encoding that positions count in."""
        agreed = self.server_capabilities.position_encoding  # a plain str if the client named it
        return str(getattr(agreed, "value", agreed) or UTF_16)

    def open_texts(self) -> OpenTexts:
        """The texts that the editor has open now."""
        documents = [each for each in self.workspace.text_documents.values() if each.uri.startswith("file:")]
        paths = [_path(each.uri) for each in documents]
        return OpenTexts(
            texts={path: each.source for path, each in zip(paths, documents, strict=True)},
            addresses={path: each.uri for path, each in zip(paths, documents, strict=True)},
            encoding=self.encoding,
        )

    def _workspace_of(self, path: Path) -> _Workspace | None:
        """The project of a file, None if it is in none."""
        templates = templates_of(path, self._options)
        return self._workspaces.setdefault(templates, _Workspace(templates)) if templates else None

    # Checks.

    def check_soon(self, uri: str, pause: float) -> None:
        """Check the project of a file after a pause; a check of an older state ends."""
        found = self._workspace_of(_path(uri))
        if found is None:
            return
        loop = asyncio.get_running_loop()
        if self._api_server is not None and self._starting is None:
            self._starting = loop.create_task(self._start(self._api_server))
        if found.check is not None:
            found.check.cancel()
        found.check = loop.create_task(self._check(found, pause))

    async def _start(self, api_server: WarmAPIServer) -> None:
        """Wait until the API server serves, and check what was checked without it."""
        await asyncio.to_thread(api_server.begin)
        self._log_note()
        for uri in self.workspace.text_documents if api_server.serves else ():
            self.check_soon(uri, 0)

    async def _check(self, found: _Workspace, pause: float) -> None:
        await asyncio.sleep(pause)
        interrupt = Interrupt()
        try:
            files = checked_files(found.templates, self._options, self.open_texts().texts)
            found.project = await asyncio.to_thread(load_project, files, found.project)
            problems = await asyncio.to_thread(_interruptible_problems, found.project, interrupt)
        except CommandError as error:
            self._log(str(error))
        except Exception as error:  # noqa: BLE001 - the next edit is checked nevertheless
            self._log_error("check", error)
        else:
            if problems is not None:
                found.problems = problems
                self._publish(found, found.project)
                self._log_note()
        finally:
            interrupt.now()  # a check goes on in its thread when its task is cancelled

    def _publish(self, found: _Workspace, project: EditedProject) -> None:
        """Show the problems of all files of a project, and none of those that were repaired."""
        texts = self.open_texts()
        places = Places(texts, project)
        opened = {path for path in texts.texts if templates_of(path, self._options) == found.templates}
        for path in sorted({*found.problems, *found.published, *opened}):
            shown = [places.diagnostic(path, each) for each in found.problems.get(path, ())]
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(texts.address(path), shown))
        found.published = set(found.problems)

    def follow(self, process: int) -> None:
        """End with a process."""
        self._following = asyncio.get_running_loop().create_task(_end_with(process))

    def stop(self) -> None:
        """End the checks that run."""
        self.exit_code = 0
        for found in self._workspaces.values():
            if found.check is not None:
                found.check.cancel()

    # Answers.

    def reading(self, uri: str) -> Reading | None:
        """The newest text of a file in its project as it was last loaded, None if it is in none."""
        path, texts = _path(uri), self.open_texts().texts
        found = self._workspace_of(path)
        if found is None:
            return None
        if found.project is None:
            found.project = load_project(checked_files(found.templates, self._options, texts))
        text = texts.get(path)
        return Reading(project=found.project, path=path, text=found.project.text(path) if text is None else text)

    def places(self, reading: Reading) -> Places:
        return Places(self.open_texts(), reading.project)

    def answer(self, uri: str, rule: Callable[[Reading], Answer], nothing: Answer) -> Answer:
        """What a rule says of a text; `nothing` if the text is in no project, or the rule fails."""
        try:
            reading = self.reading(uri)
            return nothing if reading is None else rule(reading)
        except CommandError as error:
            self._log(str(error))
        except Exception as error:  # noqa: BLE001 - one answer less, and the server goes on
            self._log_error("an answer", error)
        return nothing

    def targets(
        self, given: types.DefinitionParams | types.ReferenceParams, rule: Callable[[Reading, int, int], list[Target]]
    ) -> list[types.Location]:
        """The places to which a rule leads from a position."""

        def located(reading: Reading) -> list[types.Location]:
            places = self.places(reading)
            return [places.location(each) for each in rule(reading, *place_of(reading, given.position, self.encoding))]

        return self.answer(given.text_document.uri, located, [])

    async def hovered(self, given: types.HoverParams) -> types.Hover | None:
        """The hover of a position. Other answers don't wait for it: the first one of a folder renders its example."""
        reading = self.answer(given.text_document.uri, lambda each: each, None)
        if reading is None:
            return None
        try:
            found = await asyncio.to_thread(hover, reading, *place_of(reading, given.position, self.encoding))
        except Exception as error:  # noqa: BLE001 - one answer less, and the server goes on
            self._log_error("hover", error)
            return None
        if found is None:
            return None
        contents = types.MarkupContent(types.MarkupKind.Markdown, found.markdown)
        return types.Hover(contents, self.places(reading).range(reading.path, found.span))

    def actions(self, given: types.CodeActionParams) -> list[types.CodeAction]:
        """The fixes of the problems in a range."""

        def rule(reading: Reading) -> list[types.CodeAction]:
            found = self._workspace_of(reading.path)
            problems = () if found is None else found.problems.get(reading.path, ())
            wanted = [each for each in problems if given.range.start.line <= each.span.line <= given.range.end.line]
            return [*self.places(reading).actions(reading.path, wanted)]

        return self.answer(given.text_document.uri, rule, [])

    # The editor's log.

    def _log_note(self) -> None:
        """Log why no API server was asked, once."""
        note = "" if self._api_server is None else self._api_server.note
        if note and note != self._logged_note:
            self._log(note)
        self._logged_note = note

    def _log(self, message: str) -> None:
        self.window_log_message(types.LogMessageParams(type=types.MessageType.Warning, message=message))

    def _log_error(self, what: str, error: Exception) -> None:
        """Log an unexpected error, without its message, which may quote a Secret."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
        self._log(f"{what} failed: unexpected {type(error).__name__}{place}")


def _interruptible_problems(project: EditedProject, interrupt: Interrupt) -> Problems | None:
    """The problems, None if the check was interrupted."""
    try:
        with interruptible(interrupt):
            return problems_of(project)
    except Interrupted:
        return None


def _path(uri: str) -> Path:
    """The real path of a file."""
    return Path(uris.to_fs_path(uri) or "/").resolve()


async def _end_with(process: int) -> None:
    while True:
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            os._exit(1)  # a thread still waits for standard input
        except PermissionError:
            pass  # it runs, as another user
        await asyncio.sleep(PARENT_INTERVAL)


def make_server(options: ProjectOptions, api_server: WarmAPIServer | None) -> TemplateServer:
    """A server that answers once `start_io` runs it."""
    server = TemplateServer(options, api_server)
    _add_checks(server)
    _add_answers(server)

    @server.feature(types.INITIALIZE)
    def initialize(given: types.InitializeParams) -> None:
        if given.process_id is not None:
            server.follow(given.process_id)

    @server.feature(types.SHUTDOWN)
    def shutdown(_: Any) -> None:
        server.stop()

    return server


def _add_checks(server: TemplateServer) -> None:
    """Check what the editor opens, changes, saves and closes, and what changes on the disk."""

    @server.feature(types.INITIALIZED)
    def initialized(_: types.InitializedParams) -> None:
        watched = server.client_capabilities.workspace and server.client_capabilities.workspace.did_change_watched_files
        if watched and watched.dynamic_registration:
            watchers = types.DidChangeWatchedFilesRegistrationOptions(watchers=[types.FileSystemWatcher(_WATCHED)])
            method = types.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = types.Registration(id="files", method=method, register_options=watchers)
            server.client_register_capability(types.RegistrationParams([registration]))

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def opened(given: types.DidOpenTextDocumentParams) -> None:
        server.check_soon(given.text_document.uri, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(given: types.DidChangeTextDocumentParams) -> None:
        server.check_soon(given.text_document.uri, PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(given: types.DidSaveTextDocumentParams) -> None:
        server.check_soon(given.text_document.uri, 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(given: types.DidCloseTextDocumentParams) -> None:
        server.check_soon(given.text_document.uri, 0)  # its text is that of the disk again

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def changed_on_disk(given: types.DidChangeWatchedFilesParams) -> None:
        for each in given.changes:
            server.check_soon(each.uri, PAUSE)


def _add_answers(server: TemplateServer) -> None:
    """Answer the questions about places of texts."""

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=_TRIGGERS))
    def complete(given: types.CompletionParams) -> list[types.CompletionItem]:
        def rule(reading: Reading) -> list[types.CompletionItem]:
            line, column = place_of(reading, given.position, server.encoding)
            return server.places(reading).items(reading.path, completions(reading, line, column), line, column)

        return server.answer(given.text_document.uri, rule, [])

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hovered(given: types.HoverParams) -> types.Hover | None:
        return await server.hovered(given)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def defined(given: types.DefinitionParams) -> list[types.Location]:
        return server.targets(given, definition)

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def referred(given: types.ReferenceParams) -> list[types.Location]:
        declared = given.context.include_declaration
        return server.targets(given, lambda *place: references(*place, declared=declared))

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outline(given: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        def rule(reading: Reading) -> list[types.DocumentSymbol]:
            return symbols(reading.text, is_template=reading.path.suffix == ".j2", encoding=server.encoding)

        return server.answer(given.text_document.uri, rule, [])

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([types.CodeActionKind.QuickFix]))
    def actions(given: types.CodeActionParams) -> list[types.CodeAction]:
        return server.actions(given)


def serve(options: ProjectOptions, api_server: WarmAPIServer | None) -> int:
    """Serve the editor at standard input and output until it leaves, and end the API server. Returns the exit code."""
    with (
        contextlib.closing(api_server) if api_server is not None else contextlib.nullcontext(),
        os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output,
    ):
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may write between the messages
        server = make_server(options, api_server)
        server.start_io(sys.stdin.buffer, output)
        return server.exit_code
