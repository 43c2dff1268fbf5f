"""Graphs without a cluster, for `ssa-operator graph`: of parents in files, and of a kind by an example of it.

Promises:
- The templates are rendered as if no child existed, so that every document that reads one waits for it.
- Without an example, the parent is a sample with every field that the CRD declares.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.cluster_view import OfflineClusterView
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.labelled_graph import LabelledGraph, labelled_graph
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.render_result import Document, RenderProblem
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.operator.process.streams import CommandError
from ssa_operator.rendering.folder.contained_files import yaml_files
from ssa_operator.rendering.folder.installation import Installation
from ssa_operator.rendering.folder.loaded_folders import Folder, Sources, load_all
from ssa_operator.rendering.folder.object_files import SUFFIXES
from ssa_operator.rendering.jinja.templates import Templates
from ssa_operator.rendering.render import render, render_traced
from ssa_operator.schema.crd_schema import version_priority
from ssa_operator.schema.sample_objects import sample_object
from ssa_operator.tools.command_target import full_names, matching_resources, nearest, only_resource
from ssa_operator.tools.graph.drawn_graph import DrawnGraph
from ssa_operator.tools.offline.offline_cluster import created_parent
from ssa_operator.tools.offline.parent_documents import read_objects, read_parents
from ssa_operator.tools.offline.template_folders import (
    CRDKind,
    cluster_scoped,
    custom_kinds,
    find_folder,
    read_crd_kinds,
)


class GraphFiles(Struct, frozen=True, kw_only=True):
    """The files of a command."""

    templates: Sequence[Path]
    installation: Installation
    crds: Sequence[Path]
    examples: Sequence[Path]


def is_file(arguments: Sequence[str]) -> bool:
    """Whether the arguments name files: they exist, or have the ending of one. The name of a folder may be a kind, too,
    unless it has a slash.
    """
    return all(
        each == "-"
        or Path(each).suffix in (*SUFFIXES, ".json")
        or Path(each).is_file()
        or ("/" in each and Path(each).is_dir())
        for each in arguments
    )


def graphs_of_files(paths: Sequence[Path], files: GraphFiles) -> list[DrawnGraph]:
    """The graph of each parent in the files. Raises CommandError."""
    parents = read_parents(paths)
    offline = _Offline.read(files)
    return [offline.graph(parent) for parent in parents]


def graph_of_kind(word: str, files: GraphFiles) -> DrawnGraph:
    """The graph of a kind's first example. Raises CommandError if no template folder is for the kind."""
    offline = _Offline.read(files)
    folder = offline.folder_named(word)
    for document in read_objects([*_example_files(files)]):
        try:
            found = find_folder(document.body, offline.sources, offline.kinds)
        except CommandError:
            continue
        if found.name == folder.name:
            return offline.graph(document, f"from {document.location.file}")
    known = next((each for each in offline.kinds.values() if each.folder == folder.name), None)
    if known is None:
        raise CommandError(
            f"there is no example of {folder.name}, and no CRD to make a sample from; name a file with a parent, or "
            "--examples"
        )
    served = [each["name"] for each in known.definition["spec"].get("versions", ()) if each.get("served")]
    version = folder.settings.version or max(served, key=version_priority, default="v1")
    location = SourceLocation(f"CRD {folder.name}", 1)
    body = sample_object(known.definition, version).body
    sample = Document(body=body, location=location, location_of=lambda _: location)
    return offline.graph(sample, "from a sample of its CRD, because there is no example")


class _Offline(Struct, frozen=True, kw_only=True):
    """The templates and CRDs of a command."""

    sources: Sources
    kinds: Mapping[GroupKind, CRDKind]

    @classmethod
    def read(cls, files: GraphFiles) -> _Offline:
        return cls(sources=load_all(files.templates, installation=files.installation), kinds=read_crd_kinds(files.crds))

    def folder_named(self, word: str) -> Folder:
        """The template folder of a kind, which the user names as for kubectl. Raises CommandError."""
        known = [self._resource(folder) for folder in self.sources.folders.values()]
        if found := matching_resources(word, known):
            return self.sources.folders[only_resource(word, found)[0].name]
        words = {name: each for each in known for name in (each.name, *full_names(each), *each.short_names)}
        near = list(dict.fromkeys(words[name].name for name in nearest(word.lower(), words)))
        names = ", ".join(self.sources.folders) or "none"
        hint = f"did you mean {' or '.join(near)}?" if near else f"the template folders are {names}"
        raise CommandError(f"there is no file {word}, and no template folder is for the kind {word}; {hint}")

    def _resource(self, folder: Folder) -> Resource:
        """A folder's resource, with the names that its CRD has."""
        crd = next((each for each in self.kinds.values() if each.folder == folder.name), None)
        names = {} if crd is None else crd.definition["spec"]["names"]
        kind = str(names.get("kind", folder.resource))
        return Resource(
            group=folder.group,
            version=folder.settings.version or "",
            kind=kind,
            plural=folder.resource,
            namespaced=crd is None or crd.namespaced,
            singular=str(names.get("singular", kind)).lower(),
            short_names=tuple(names.get("shortNames", ())),
        )

    def graph(self, parent: Document, note: str = "") -> DrawnGraph:
        """The graph of one parent. Raises CommandError if it has no template folder."""
        folder = find_folder(parent.body, self.sources, self.kinds)
        now = time.time()
        body = created_parent(parent, folder, self.kinds, now).body
        view = OfflineClusterView(
            now=now, cluster_scoped=cluster_scoped(self.kinds), custom_kinds=custom_kinds(self.kinds)
        )
        identity, plain = LiveObject.of(body).identity, render(folder, body, view)
        graph, _ = rendered_graph(folder, body, view)
        problems = [*map(str, plain.problems), *(f"{identity} has a dependency cycle: {each}" for each in graph.cycles)]
        return DrawnGraph(title=str(identity), note=note, graph=graph, problems=tuple(dict.fromkeys(problems)))


def rendered_graph(
    templates: Templates | Folder, parent: Mapping[str, Any], view: OfflineClusterView
) -> tuple[LabelledGraph, tuple[RenderProblem, ...]]:
    """The graph of a parent, and the problems of its templates."""
    rendered, namespace = render_traced(templates, parent, view), parent["metadata"].get("namespace", "")

    def placed(child: Identity) -> Identity:
        if child.group_kind in view.cluster_scoped:
            return replace(child, namespace="")
        return child if child.namespace else replace(child, namespace=namespace)

    return labelled_graph(rendered, placed), rendered.problems


def _example_files(files: GraphFiles) -> Iterator[Path]:
    """The files with examples, those directly in a folder first."""
    for root in files.examples:
        if root.is_file():
            yield root
            continue
        if not root.is_dir():
            raise CommandError(f"there is no file or folder {root}; correct --examples", code=2)
        # The user chooses where a named folder leads.
        yield from yaml_files(root.resolve() if root.is_symlink() else root, SUFFIXES, depth=2)
