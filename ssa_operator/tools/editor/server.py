"""The language server: the protocol around the rules of this room.

Promises:
- An edit is checked once the user pauses for `PAUSE` seconds, and a check of an older text is interrupted.
- A check takes place beside the answers: completion and hover don't wait for it.
- A file without problems has an empty list, so that what was repaired disappears.
- An error of a rule is a line of the editor's log, without values, and the answer is empty. The server goes on.
- Standard output has the protocol alone.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from lsprotocol import types
from pygls import uris
from pygls.lsp.server import LanguageServer

from ssa_operator import __version__
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.values.limits import Interrupt, Interrupted, interruptible
from ssa_operator.tools.editor.completion import Completion, Sort, completions
from ssa_operator.tools.editor.definitions import definition, references
from ssa_operator.tools.editor.diagnostics import Problem, Problems, problems_of
from ssa_operator.tools.editor.edited_project import (
    EditedProject,
    ProjectOptions,
    checked_files,
    load_project,
    templates_of,
)
from ssa_operator.tools.editor.expression_types import Reading
from ssa_operator.tools.editor.hover import hover
from ssa_operator.tools.editor.symbols import symbols
from ssa_operator.tools.editor.text_places import UTF_16, Span, Target, column_of, lines_of, units
from ssa_operator.tools.findings.codes import Severity

PAUSE = 0.3
"""Seconds without an edit after which a text is checked."""

Answer = TypeVar("Answer")

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
}
_WATCHED = "**/*.{yaml,yml,j2}"


@dataclass(slots=True)
class _Workspace:
    """What the server knows of one project."""

    templates: tuple[Path, ...]
    project: EditedProject | None = None
    problems: Problems = field(default_factory=dict)
    published: set[Path] = field(default_factory=set)
    """The files whose problems the editor shows."""
    check: asyncio.Task[None] | None = None
    interrupt: Interrupt = field(default_factory=Interrupt)


class TemplateServer(LanguageServer):
    """Serves one editor."""

    def __init__(self, options: ProjectOptions) -> None:
        super().__init__("ssa-operator", __version__)
        self._options = options
        self._workspaces: dict[tuple[Path, ...], _Workspace] = {}

    # Projects.

    def workspace_of(self, path: Path) -> _Workspace | None:
        """The project of a file, None if it is in none."""
        templates = templates_of(path, self._options)
        if not templates:
            return None
        return self._workspaces.setdefault(templates, _Workspace(templates))

    def project_of(self, path: Path) -> EditedProject | None:
        """The project of a file as it was last loaded; it is loaded if it was not."""
        found = self.workspace_of(path)
        if found is not None and found.project is None:
            found.project = self._loaded(found)
        return None if found is None else found.project

    def _loaded(self, found: _Workspace) -> EditedProject:
        return load_project(checked_files(found.templates, self._options, self._unsaved()), found.project)

    def _unsaved(self) -> dict[Path, str]:
        documents = self.workspace.text_documents.values()
        return {_path(each.uri): each.source for each in documents if each.uri.startswith("file:")}

    def text(self, path: Path, project: EditedProject) -> str:
        """The newest text of a file."""
        return self._unsaved().get(path) or project.text(path)

    @property
    def encoding(self) -> str:
        """The encoding that positions count in."""
        return str(getattr(self.server_capabilities.position_encoding, "value", UTF_16))

    # Checks.

    def check_soon(self, path: Path, pause: float) -> None:
        """Check the project of a file after a pause; a check of an older state ends."""
        found = self.workspace_of(path)
        if found is None:
            return
        found.interrupt.now()
        if found.check is not None:
            found.check.cancel()
        found.interrupt = Interrupt()
        found.check = asyncio.get_running_loop().create_task(self._check(found, found.interrupt, pause))

    async def _check(self, found: _Workspace, interrupt: Interrupt, pause: float) -> None:
        await asyncio.sleep(pause)
        try:
            files = checked_files(found.templates, self._options, self._unsaved())
            found.project = project = await asyncio.to_thread(load_project, files, found.project)
            problems = await asyncio.to_thread(_interruptible_problems, project, interrupt)
        except CommandError as error:
            self.log(str(error))
        except Exception as error:  # noqa: BLE001 - the next edit is checked nevertheless
            self.log_error("check", error)
        else:
            if problems is not None:
                found.problems = problems
                self._publish(found)

    def _publish(self, found: _Workspace) -> None:
        """Show the problems of all files of a project, and none of those that were repaired."""
        opened = {path for path in self._unsaved() if templates_of(path, self._options) == found.templates}
        for path in sorted({*found.problems, *found.published, *opened}):
            diagnostics = [self._diagnostic(path, each, found) for each in found.problems.get(path, ())]
            self.text_document_publish_diagnostics(
                types.PublishDiagnosticsParams(uri=_uri(path), diagnostics=diagnostics)
            )
        found.published = set(found.problems)

    def _diagnostic(self, path: Path, problem: Problem, found: _Workspace) -> types.Diagnostic:
        related = [
            types.DiagnosticRelatedInformation(location=self.location(each, found.project), message="included here")
            for each in problem.related
        ]
        return types.Diagnostic(
            range=self.range(path, problem.span, found.project),
            message=problem.message,
            severity=_SEVERITIES[problem.severity],
            code=problem.code or None,
            source="ssa-operator",
            related_information=related or None,
        )

    def actions(self, path: Path, wanted: types.Range) -> list[types.CodeAction]:
        """The fixes of the problems in a range."""
        found = self.workspace_of(path)
        if found is None:
            return []
        actions = []
        for problem in found.problems.get(path, ()):
            if not wanted.start.line <= problem.span.line <= wanted.end.line:
                continue
            for fix in problem.fixes:
                edit = types.TextEdit(range=self.range(path, fix.span, found.project), new_text=fix.new)
                actions.append(
                    types.CodeAction(
                        title=fix.title,
                        kind=types.CodeActionKind.QuickFix,
                        diagnostics=[self._diagnostic(path, problem, found)],
                        edit=types.WorkspaceEdit(changes={_uri(path): [edit]}),
                    )
                )
        return actions

    # Places.

    def range(self, path: Path, span: Span, project: EditedProject | None) -> types.Range:
        """A part of a line as the protocol says it."""
        lines = lines_of(self.text(path, project)) if project is not None else []
        line = lines[span.line] if 0 <= span.line < len(lines) else ""
        begin, end = (units(line[:column], self.encoding) for column in (span.column, span.end))
        number = max(span.line, 0)
        return types.Range(types.Position(number, begin), types.Position(number, end))

    def location(self, target: Target, project: EditedProject | None) -> types.Location:
        return types.Location(uri=_uri(target.path), range=self.range(target.path, target.span, project))

    def answer(self, what: str, uri: str, rule: Callable[[Reading], Answer], nothing: Answer) -> Answer:
        """What a rule says of a text; `nothing` if the text is in no project, or the rule fails."""
        path = _path(uri)
        try:
            project = self.project_of(path)
            if project is None:
                return nothing
            return rule(Reading(project=project, path=path, text=self.text(path, project)))
        except CommandError as error:
            self.log(str(error))
        except Exception as error:  # noqa: BLE001 - one answer less, and the server goes on
            self.log_error(what, error)
        return nothing

    def place(self, reading: Reading, position: types.Position) -> tuple[int, int]:
        """The line and the column of a position."""
        lines = reading.lines
        if position.line >= len(lines):
            return len(lines) - 1, len(lines[-1])
        return position.line, column_of(lines[position.line], position.character, self.encoding)

    def log(self, message: str) -> None:
        """Write a line to the editor's log."""
        self.window_log_message(types.LogMessageParams(type=types.MessageType.Warning, message=message))

    def log_error(self, what: str, error: Exception) -> None:
        """Log an unexpected error, without its message, which may quote a Secret."""
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        place = f" at {Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else ""
        self.log(f"{what} failed: unexpected {type(error).__name__}{place}")

    def stop(self) -> None:
        """End the checks that run."""
        for found in self._workspaces.values():
            found.interrupt.now()
            if found.check is not None:
                found.check.cancel()


def _interruptible_problems(project: EditedProject, interrupt: Interrupt) -> Problems | None:
    """The problems, None if the check was interrupted."""
    try:
        with interruptible(interrupt):
            return problems_of(project)
    except Interrupted:
        return None


def _path(uri: str) -> Path:
    return Path(uris.to_fs_path(uri) or "/").resolve()


def _uri(path: Path) -> str:
    return uris.from_fs_path(str(path)) or ""


def make_server(options: ProjectOptions) -> TemplateServer:
    """A server that answers once `start_io` runs it."""
    server = TemplateServer(options)

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
        server.check_soon(_path(given.text_document.uri), 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def changed(given: types.DidChangeTextDocumentParams) -> None:
        server.check_soon(_path(given.text_document.uri), PAUSE)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(given: types.DidSaveTextDocumentParams) -> None:
        server.check_soon(_path(given.text_document.uri), 0)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(given: types.DidCloseTextDocumentParams) -> None:
        server.check_soon(_path(given.text_document.uri), 0)  # its text is that of the disk again

    @server.feature(types.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    def changed_on_disk(given: types.DidChangeWatchedFilesParams) -> None:
        for each in given.changes:
            server.check_soon(_path(each.uri), PAUSE)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, types.CodeActionOptions([types.CodeActionKind.QuickFix]))
    def actions(given: types.CodeActionParams) -> list[types.CodeAction]:
        return server.actions(_path(given.text_document.uri), given.range)

    _add_answers(server)

    @server.feature(types.SHUTDOWN)
    def shutdown(_: Any) -> None:
        server.stop()

    return server


_SORTS = {
    Sort.FIELD: types.CompletionItemKind.Field,
    Sort.VARIABLE: types.CompletionItemKind.Variable,
    Sort.FUNCTION: types.CompletionItemKind.Function,
    Sort.KEYWORD: types.CompletionItemKind.Keyword,
    Sort.VALUE: types.CompletionItemKind.EnumMember,
    Sort.KIND: types.CompletionItemKind.Class,
    Sort.FILE: types.CompletionItemKind.File,
}
_TRIGGERS = [".", "|", '"', "'", "/", " "]


def _add_answers(server: TemplateServer) -> None:
    """Let the server answer the questions about places of texts."""

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=_TRIGGERS))
    def complete(given: types.CompletionParams) -> list[types.CompletionItem]:
        def rule(reading: Reading) -> list[types.CompletionItem]:
            line, column = server.place(reading, given.position)
            found = completions(reading, line, column)
            replaced = server.range(reading.path, Span(line, found.begin, column), reading.project)
            return [_item(at, each, replaced) for at, each in enumerate(found.items)]

        return server.answer("completion", given.text_document.uri, rule, [])

    @server.feature(types.TEXT_DOCUMENT_HOVER)
    async def hovered(given: types.HoverParams) -> types.Hover | None:
        def rule(reading: Reading) -> types.Hover | None:
            found = hover(reading, *server.place(reading, given.position))
            if found is None:
                return None
            contents = types.MarkupContent(types.MarkupKind.Markdown, found.markdown)
            return types.Hover(contents, server.range(reading.path, found.span, reading.project))

        # The first hover renders an example.
        return await asyncio.to_thread(server.answer, "hover", given.text_document.uri, rule, None)

    @server.feature(types.TEXT_DOCUMENT_DEFINITION)
    def defined(given: types.DefinitionParams) -> list[types.Location]:
        def rule(reading: Reading) -> list[types.Location]:
            found = definition(reading, *server.place(reading, given.position))
            return [server.location(each, reading.project) for each in found]

        return server.answer("definition", given.text_document.uri, rule, [])

    @server.feature(types.TEXT_DOCUMENT_REFERENCES)
    def referred(given: types.ReferenceParams) -> list[types.Location]:
        def rule(reading: Reading) -> list[types.Location]:
            found = references(reading, *server.place(reading, given.position))
            return [server.location(each, reading.project) for each in found]

        return server.answer("references", given.text_document.uri, rule, [])

    @server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
    def outline(given: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
        def rule(reading: Reading) -> list[types.DocumentSymbol]:
            lines = reading.lines
            return [
                types.DocumentSymbol(
                    name=each.name,
                    detail=each.detail,
                    kind=types.SymbolKind.Function if each.is_macro else types.SymbolKind.Object,
                    range=types.Range(
                        types.Position(each.begin, 0),
                        types.Position(each.end, units(lines[each.end], server.encoding)),
                    ),
                    selection_range=server.range(reading.path, each.span, reading.project),
                )
                for each in symbols(reading.text, is_template=reading.path.suffix == ".j2")
            ]

        return server.answer("symbols", given.text_document.uri, rule, [])


def _item(number: int, found: Completion, replaced: types.Range) -> types.CompletionItem:
    documentation = types.MarkupContent(types.MarkupKind.Markdown, found.documentation) if found.documentation else None
    return types.CompletionItem(
        label=found.label,
        kind=_SORTS[found.sort],
        detail=found.detail or None,
        documentation=documentation,
        sort_text=f"{number:05}",
        text_edit=types.TextEdit(replaced, found.text or found.label),
    )


def serve(options: ProjectOptions) -> None:
    """Serve the editor at standard input and output until it leaves."""
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else may write between the messages
        make_server(options).start_io(sys.stdin.buffer, output)
