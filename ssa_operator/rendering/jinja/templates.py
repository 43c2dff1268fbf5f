"""Compiles the templates of one folder.

Promises:
- A folder compiles as a whole or not at all, and all faults of its files are reported at once, each with its line. Only
  a caller that wants to see all errors compiles it without the files at fault and the files that include them.
- A template is compiled once. A bounded cache keeps the parsed YAML of rendered text, which contains no values.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jinja2 import Template, TemplateSyntaxError, meta, nodes
from msgspec import Struct, field

from ssa_operator.objects.render_result import RenderProblem
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.jinja.environment import Environment
from ssa_operator.rendering.jinja.filters import FILTERS, TESTS
from ssa_operator.rendering.jinja.folder_files import FILES, FolderFiles
from ssa_operator.rendering.jinja.functions import CLUSTER_FUNCTIONS, CLUSTER_VARIABLES, REMOVED
from ssa_operator.rendering.jinja.suggestions import suggest_filter, suggest_test, with_go_hint
from ssa_operator.rendering.jinja.tags import block_error
from ssa_operator.rendering.values.line_marks import MarkedText, StaticText
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import DocumentError, Node

if TYPE_CHECKING:
    from ssa_operator.rendering.jinja.coverage import TemplateCoverage

SHARED = "_shared"
"""The folder whose files every other folder can import."""

STATUS = "_status.yaml.j2"
"""The template of the parent's own status fields."""

CONVERT = "_convert"
"""The folder of the templates that convert parents between the versions of their CRD."""

VALUES = "_values.yaml"
"""The settings of the installation that a folder's templates see as `values`."""

MANIFESTS = (".yaml", ".yml", ".json")
"""The endings of manifests; `.j2` behind one of them makes it a template."""

_CLUSTER_CALL = re.compile(rf"\b(?:{'|'.join(sorted(CLUSTER_FUNCTIONS | CLUSTER_VARIABLES))})\b")

_CONVERSION = re.compile(r"([a-z][a-z0-9]{0,62})-to-([a-z][a-z0-9]{0,62})\.yaml\.j2")

_UNSTABLE = CLUSTER_FUNCTIONS | CLUSTER_VARIABLES | {"operator", "values"}
"""The names that no conversion reads: an object must not change because something else did."""

_RESULT = re.compile(r"\bresult\b")

_VERSION = re.compile(r"\bkubernetes_version\b")

_JOINING = re.compile(r"-[%}#]}$")

_OFFSET = re.compile(r"(?<=['\"]) at [0-9]+$")
_UNKNOWN = re.compile(r"No (filter|test) named '([^']+)'")

_CACHED_TEXTS = 256
_CACHED_LENGTH = 64 * 1024


class LoadError(ValueError):
    """The files of a folder don't compile; `problems` has every fault."""

    def __init__(self, problems: tuple[RenderProblem, ...]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class Surroundings(Struct, frozen=True, kw_only=True):
    """The inputs of a folder's templates beside the parent and the cluster."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the installation."""
    operator: Mapping[str, str] = field(default_factory=dict)
    """The operator's namespace and version."""
    files: FolderFiles = field(default_factory=FolderFiles)
    """The files that templates can read as text."""
    render_limit: float | None = None
    """Seconds of processor time that one template may take; None for the usual limit."""


class ManifestFile(Struct, frozen=True):
    """One file that renders manifests: a template, or the parsed documents of a static file."""

    name: str
    template: Template | None = None
    documents: tuple[Node, ...] = ()


class Templates:
    """A folder's compiled templates. `digest` identifies them. `queries_cluster`: one of them may query the cluster;
    `manifests_query_cluster`: so may one that renders manifests, or that these include;
    `reads_version`: one may read `kubernetes_version`; `reads_result`: the status template may read `result`.
    `problems` are the faults of the files that are left out, and `incomplete` is whether one of these renders
    manifests.
    """

    def __init__(
        self,
        folder: str,
        files: Mapping[str, str],
        digest: str,
        surroundings: Surroundings | None = None,
        coverage: TemplateCoverage | None = None,
        unread: Collection[str] | None = None,
    ) -> None:
        """Compile `files` (text by path below the templates folder, `_shared` included). `coverage` records what
        renders reach.

        Raises LoadError, unless `unread` is given: the names of files that can't be read or rendered. Then these are
        left out, and so are the files at fault and all that include or import one of them.
        """
        self.folder = folder
        self.digest = digest
        self._files = files
        self._names = list(files)
        self._parse_cached = lru_cache(_CACHED_TEXTS)(self._parse)
        self.queries_cluster = any(_CLUSTER_CALL.search(text) for text in files.values())
        self.reads_result = any(_RESULT.search(text) for text in files.values())
        self.reads_version = any(_VERSION.search(text) for text in files.values())
        covered = coverage if coverage is not None and coverage.folder in ("", folder) else None
        self._environment = Environment(files, self._full_name, self.queries_cluster, covered)
        self.surroundings = surroundings or Surroundings()
        found = self.surroundings
        self._environment.globals |= {"values": found.values, "operator": found.operator, **found.files.functions()}
        self.globals: Mapping[str, Any] = self._environment.globals
        self._problems: list[RenderProblem] = []
        self._checked: set[str] = set()
        self._faulty: set[str] = set(unread or ())
        self._references: dict[str, set[str]] = {}
        self._dynamic: set[str] = set()
        """The files that include or import a file by an expression."""
        for name in files:
            if name.startswith(f"{folder}/") and name.endswith(".j2"):
                self._check(name)
        static = {
            name: self._parse_static(name) for name in files if is_manifest(folder, name) and not name.endswith(".j2")
        }
        if unread is not None:
            for name in files:
                if name.endswith(".j2") and name not in self._checked:
                    self._parse_template(name)  # a file in `_shared` that nothing includes
        conversions = self._conversions()
        self.problems = tuple(dict.fromkeys(self._problems))
        if self.problems and unread is None:
            raise LoadError(self.problems)
        self._left_out = self._affected()
        self.incomplete = any(is_manifest(folder, name) for name in self._left_out)
        self.manifest_files = tuple(
            ManifestFile(name, documents=static[name]) if name in static else self._manifest_file(name)
            for name in files
            if is_manifest(folder, name) and name not in self._left_out
        )
        self.manifests_query_cluster = any(
            _CLUSTER_CALL.search(files[name]) for name in self._reached(each.name for each in self.manifest_files)
        )
        status = f"{folder}/{STATUS}"
        self.status = self._manifest_file(status) if status in files and status not in self._left_out else None
        self.conversions: Mapping[tuple[str, str], ManifestFile] = {
            versions: self._manifest_file(name) for versions, name in conversions.items() if name not in self._left_out
        }
        """The templates in `_convert/`, by the version that each reads and the one that it renders."""

    def _conversions(self) -> dict[tuple[str, str], str]:
        """The names of the conversions, by their versions; adds the faults of the others to the problems."""
        found: dict[tuple[str, str], str] = {}
        for name in self._files:
            inner = name.removeprefix(f"{self.folder}/{CONVERT}/")
            if inner == name or inner.startswith("_"):
                continue
            if (match := _CONVERSION.fullmatch(inner)) is None:
                self._fault(
                    name, 1, f"{inner} is no conversion; call it <from>-to-<to>.yaml.j2, as v1alpha1-to-v1.yaml.j2"
                )
            elif match[1] == match[2]:
                self._fault(name, 1, f"converts {match[1]} to itself; name two versions")
            else:
                found[match[1], match[2]] = name
                if name not in self._faulty:
                    self._check_conversion(name)
        return found

    def _check_conversion(self, name: str) -> None:
        """Add a problem for each name that a conversion reads and that doesn't come from the object."""
        tree = self.syntax_tree(name)
        unstable = meta.find_undeclared_variables(tree) & _UNSTABLE
        for each in sorted(unstable):
            line = min(node.lineno for node in tree.find_all(nodes.Name) if node.name == each)
            self._fault(
                name,
                line,
                f"a conversion can't read {each}; it sees only the object, because the result must stay the same",
            )

    def _fault(self, name: str, line: int, message: str) -> None:
        self._problems.append(RenderProblem(message, SourceLocation(name, line)))
        self._faulty.add(name)

    @property
    def text(self) -> str:
        """The text of all files."""
        return "\n".join(self._files.values())

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names of all files, in the order of the numbers in line marks."""
        return tuple(self._names)

    @property
    def included(self) -> frozenset[str] | None:
        """The files that others include or import; None if a name is computed, or a file has a fault."""
        return None if self._dynamic or self.problems else frozenset().union(*self._references.values())

    @property
    def shared_files(self) -> Mapping[str, str]:
        """The text of each file in `_shared` that the folder includes or imports, also through another one."""
        return {
            name: text for name, text in self._files.items() if name in self._checked and name.startswith(f"{SHARED}/")
        }

    def source(self, name: str) -> str:
        """The text of a file."""
        return self._files[name]

    def syntax_tree(self, name: str) -> nodes.Template:
        """The syntax tree of a template; its text has line marks."""
        return self._environment.parse(self._files[name], name, name)

    def full_name(self, name: str) -> str | None:
        """The file that a template means by `name` in an import or include; None if there is no such file, or it is
        left out.
        """
        full = self._full_name(name)
        return full if full in self._files and full not in self._left_out else None

    def parse_rendered(self, marked: str, name: str) -> tuple[Node, ...]:
        """The parsed documents of a rendered text with its line marks. Raises DocumentError."""
        return self._parse_cached(marked, name) if len(marked) <= _CACHED_LENGTH else self._parse(marked, name)

    def _parse(self, marked: str, name: str) -> tuple[Node, ...]:
        return parse(MarkedText(marked, self._names, SourceLocation(name, 1)))

    def line(self, location: SourceLocation) -> str | None:
        """The text of a template line; None if the file mentions Secrets, because their content must not be shown."""
        text = self._files.get(location.file, "")
        lines = text.split("\n")
        return None if "Secret" in text or location.line > len(lines) else lines[location.line - 1].strip()

    def joins_above(self, location: SourceLocation) -> bool:
        """Whether a tag removes the line break before a template line: `-%}` at the end of the line above."""
        lines = self._files.get(location.file, "").split("\n")[: location.line - 1]
        return _JOINING.search("\n".join(lines).rstrip()) is not None

    def _manifest_file(self, name: str) -> ManifestFile:
        return ManifestFile(name, template=self._environment.get_template(name))

    def _parse_static(self, name: str) -> tuple[Node, ...]:
        try:
            return parse(StaticText(self._files[name], name), for_kubectl=True)
        except DocumentError as error:
            self._problems.append(RenderProblem(str(error), error.location))
            self._faulty.add(name)
            return ()

    def _reached(self, names: Iterable[str]) -> frozenset[str]:
        """These files, and those that they include or import: all of them where a name is an expression."""
        found: set[str] = set()
        more = set(names)
        while more:
            found |= more
            if found & self._dynamic:
                return frozenset(self._files)
            more = {named for name in more for named in self._references.get(name, ())} & self._files.keys() - found
        return frozenset(found)

    def _affected(self) -> frozenset[str]:
        """The files at fault, and those that include or import one of them."""
        found = set(self._faulty)
        while more := {name for name, named in self._references.items() if name not in found and named & found}:
            found |= more
        return frozenset(found)

    def _check(self, name: str) -> None:
        """Compile a template and the templates that it names; add their faults to the problems."""
        if name in self._checked:
            return
        self._checked.add(name)
        for reference in self._parse_template(name):
            self._check_reference(reference, name)

    def _parse_template(self, name: str) -> list[nodes.Node]:
        """Compile a template. Returns what it includes and imports; nothing, and a problem, where it has a fault."""
        try:
            tree = self._environment.parse(self._files[name], name, name)
            named = (nodes.Include, nodes.Import, nodes.FromImport, nodes.Extends)
            references: list[nodes.Node] = [*tree.find_all(named)]
            self._environment.compile_next(name, tree)
            self._environment.get_template(name)
        except TemplateSyntaxError as error:
            found = block_error(error, self._environment.lex(self._files[name], name, name))
            location = SourceLocation(error.name or name, found.lineno)
            lines = self._files.get(location.file, "").split("\n")
            line = lines[location.line - 1] if location.line <= len(lines) else ""
            self._problems.append(RenderProblem(_with_hint(_syntax_message(found), line), location))
            self._faulty.add(name)
            return []
        return references

    def _check_reference(self, reference: nodes.Node, name: str) -> None:
        named: nodes.Expr = reference.template  # type: ignore[attr-defined]
        if not isinstance(named, nodes.Const) or not isinstance(named.value, str):
            self._dynamic.add(name)
            return
        full = self._full_name(named.value)
        self._references.setdefault(name, set()).add(full)
        if full in self._files:
            self._check(full)
        elif full not in self._faulty and not getattr(reference, "ignore_missing", False):
            self._faulty.add(name)
            self._problems.append(
                RenderProblem(f"{full} {_missing_reason(named.value)}", SourceLocation(name, reference.lineno))
            )

    def _full_name(self, name: str) -> str:
        """The file that `name` refers to: below the folder, or below `_shared`."""
        own = f"{self.folder}/{name}"
        return name if name.startswith(f"{SHARED}/") and own not in self._files else own


def _missing_reason(name: str) -> str:
    if name.startswith("/") or ".." in name.split("/"):
        return f"is outside of the folder; put what folders share into {SHARED}/"
    return f"does not exist; names start at the folder, or with {SHARED}/"


def _with_hint(message: str, line: str) -> str:
    """The message about a line that Jinja can't read, with what to write where the line shows it."""
    if message == "unexpected '}'" and "{%" in line.rpartition("%}")[2]:
        return f"{message}; close a tag with %}}"
    return with_go_hint(message, line)


def _syntax_message(error: TemplateSyntaxError) -> str:
    # Jinja counts its characters from the beginning of the file.
    message = _OFFSET.sub("", error.message or "syntax error")
    reason = next((reason for name, reason in REMOVED.items() if f"'{name}'" in message), "")
    unknown = _UNKNOWN.match(message)
    if reason or unknown is None:
        return reason or message
    suggest, known = (suggest_filter, FILTERS) if unknown[1] == "filter" else (suggest_test, TESTS)
    suggestion = suggest(unknown[2], known)
    return f"{message.rstrip('.')}; {suggestion.text}" if suggestion.text else message


def is_manifest(folder: str, name: str) -> bool:
    """Whether a file renders manifests: no part of its path below the folder begins with `_`, and `files/` has none."""
    if not name.startswith(f"{folder}/"):
        return False
    inner = name.removeprefix(f"{folder}/")
    return (
        not inner.startswith(f"{FILES}/")
        and inner.removesuffix(".j2").endswith(MANIFESTS)
        and not any(part.startswith("_") for part in inner.split("/"))
    )
