"""The cluster that a command uses, and the objects of it that the user names.

Promises:
- The cluster is the one that kubectl would use: of --kubeconfig, KUBECONFIG, ~/.kube/config, and in a pod its service
  account.
- If none of these exists and the local cluster of SSA_OPERATOR_NAME (without it: `default`) runs, the command uses that
  one, and says so on standard error.
- A command takes no local cluster of another name, which may be another project's: the error names each that runs, and
  the command that makes the shell use it.
- A user names an object as for kubectl: `KIND/NAME` or `KIND NAME`. KIND is a kind, a singular, a plural or a short
  name, in any case, and may end in `.group` or `.version.group`.
- If several groups serve a name, a resource with a template folder wins, and then one of Kubernetes. If that leaves
  several, the error names them.
- If a kind or name is mistyped, the error suggests the nearest ones. If the object is in another namespace, the error
  names that namespace.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ssa_operator.kube.auth import credentials
from ssa_operator.objects.built_in_kinds import BUILT_IN_KINDS
from ssa_operator.objects.identity import GroupKind
from ssa_operator.objects.messages import near_names
from ssa_operator.operator.process import streams
from ssa_operator.operator.process.connection import Target
from ssa_operator.operator.process.streams import CommandError

if TYPE_CHECKING:
    from ssa_operator.kube.api.client import Client
    from ssa_operator.kube.api.discovery import RESTMapper
    from ssa_operator.kube.api.resource import Resource
    from ssa_operator.objects.live_object import LiveObject

SUGGESTIONS = 3
"""The most names that an error suggests."""

_SIMILARITY = 0.6
"""The least ratio of difflib between a mistyped word and a suggestion: `deploymnet` and `deployment` have 0.9."""


class ObjectReference(Struct, frozen=True):
    """An object, or all objects of a kind, as the user named it."""

    kind: str
    """A kind, singular, plural or short name, perhaps with `.group` or `.version.group`."""

    name: str = ""
    """'' for all objects of the kind."""

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}" if self.name else self.kind


class FoundObject(Struct, frozen=True, kw_only=True):
    """An object of the cluster, and its resource."""

    resource: Resource
    live: LiveObject


def parse_references(arguments: Sequence[str], *, names: bool = True) -> tuple[ObjectReference, ...]:
    """The objects that some arguments name: `KIND/NAME` each, or `KIND NAME...`; without `names`, `KIND` alone is
    allowed, too.

    `KIND,KIND` stands for several kinds. Raises CommandError.
    """
    if any("/" in argument for argument in arguments):
        return tuple(_read_slash(argument) for argument in arguments)
    if not arguments:
        return ()
    kinds, *given = [_checked(argument, argument) for argument in arguments]
    if names and not given:
        raise CommandError(f"{kinds!r} names no object; write {kinds}/NAME or {kinds} NAME", code=2)
    return tuple(ObjectReference(_checked(kind, kinds), name) for name in given or ("",) for kind in kinds.split(","))


def parse_reference(arguments: Sequence[str]) -> ObjectReference:
    """The one object that some arguments name. Raises CommandError."""
    found = parse_references(arguments)
    if len(found) != 1:
        raise CommandError(f"{' '.join(arguments)!r} names {len(found)} objects; name one, as KIND/NAME", code=2)
    return found[0]


def parse_chain(arguments: Sequence[str]) -> tuple[ObjectReference, ...]:
    """The objects that some arguments name one after the other, each as `KIND/NAME` or as `KIND NAME`: a parent and its
    child, for instance. Raises CommandError.
    """
    found, rest = [], list(arguments)
    while rest:
        length = 1 if "/" in rest[0] else 2
        found.append(parse_reference(rest[:length]))
        del rest[:length]
    return tuple(found)


def _read_slash(argument: str) -> ObjectReference:
    kind, slash, name = argument.partition("/")
    if not slash:
        raise CommandError(f"{argument!r} is not KIND/NAME; write all objects as KIND/NAME, or as KIND NAME", code=2)
    if "/" in name:
        raise CommandError(f"{argument!r} has two slashes; write KIND/NAME, and the namespace with -n", code=2)
    return ObjectReference(_checked(kind, argument), _checked(name, argument))


def _checked(word: str, argument: str) -> str:
    if not word or word.isspace():
        raise CommandError(f"{argument!r} is not KIND/NAME", code=2)
    return word


def matching_resources(kind: str, resources: Iterable[Resource]) -> list[tuple[Resource, str]]:
    """The resources that a user's word for a kind can mean, each with the version that the word names ('' for none).

    As kubectl, it takes the first part of the word's dots as the name, and the rest as a group, a version and a group,
    or the beginning of a group. A whole group or version excludes its reading as a beginning, and a full name excludes
    short names.
    """
    head, _, rest = kind.lower().partition(".")
    known = list(resources)
    for names in (full_names, _short_names):
        named = [each for each in known if head in names(each)]
        if found := list(_in_group(rest, named)):
            return found
    return []


def full_names(resource: Resource) -> Collection[str]:
    return {resource.plural, resource.singular, resource.kind.lower()}


def _short_names(resource: Resource) -> Collection[str]:
    return resource.short_names


def _in_group(rest: str, resources: Sequence[Resource]) -> Iterator[tuple[Resource, str]]:
    """The resources whose group is as the user wrote it, with the version that the user wrote."""
    exact = [each for each in resources if not rest or each.group == rest]
    if exact:
        yield from ((each, "") for each in exact)
        return
    version, _, group = rest.partition(".")
    versioned = [each for each in resources if _is_version(version) and each.group == group]
    if versioned:
        yield from ((each, version) for each in versioned)
        return
    yield from ((each, "") for each in resources if each.group.startswith(rest))


def _is_version(text: str) -> bool:
    return text[:1] == "v" and text[1:2].isdigit()


_OF_KUBERNETES = frozenset(GroupKind.of(each.api_version, each.kind) for each in BUILT_IN_KINDS)


def only_resource(
    kind: str, found: Sequence[tuple[Resource, str]], folders: Collection[str] = ()
) -> tuple[Resource, str]:
    """The one of the matching resources that a user's word for a kind means. Raises CommandError if that is open.

    Two groups of Kubernetes may serve the same objects (Event), so the first of them is meant, as for kubectl.
    """
    preferred = [each for each in found if each[0].name in folders]
    preferred = preferred or [each for each in found if each[0].group_kind in _OF_KUBERNETES][:1] or list(found)
    if len(preferred) > 1:
        names = " or ".join(resource.name for resource, _ in preferred)
        raise CommandError(f"{kind} is a kind of several groups; write {names} instead", code=2)
    return preferred[0]


def unknown_kind(kind: str, resources: Iterable[Resource]) -> str:
    """The message about a kind that the cluster does not serve, with the nearest ones."""
    known = list(resources)
    words = {name: each for each in reversed(known) for name in (*full_names(each), each.name)}
    near = [words[word].name for word in nearest(kind.lower(), words)]
    head = kind.lower().partition(".")[0]
    near += [each.name for each in known if head in full_names(each)] if "." in kind else []
    hint = _did_you_mean(list(dict.fromkeys(near))[:SUGGESTIONS])
    otherwise = "install its CRD with `ssa-operator crds apply`, or correct the kind"
    return f"the cluster serves no resource {kind}; {hint or otherwise}"


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """The known words that are most similar to a mistyped word, the most similar first."""
    return near_names(word, known, SUGGESTIONS, _SIMILARITY)


def _did_you_mean(names: Sequence[str]) -> str:
    return f"did you mean {' or '.join(names)}?" if names else ""


async def resolve_kind(mapper: RESTMapper, kind: str, folders: Collection[str] = ()) -> Resource:
    """The resource that a user's word for a kind means; `folders` are the names of the template folders.

    Raises CommandError for an unknown kind and for one of several groups, and ApiError if discovery fails.
    """
    from ssa_operator.kube.api.discovery import UnknownKind

    known = await mapper.resources()
    found = matching_resources(kind, known)
    if not found:
        raise CommandError(unknown_kind(kind, known))
    resource, version = only_resource(kind, found, folders)
    if not version:
        return resource
    try:
        return await mapper.resource(resource.group_kind, version)
    except UnknownKind as error:
        raise CommandError(str(error)) from error


async def find_object(
    client: Client,
    mapper: RESTMapper,
    reference: ObjectReference,
    *,
    namespace: str = "",
    folders: Collection[str] = (),
) -> FoundObject:
    """The object that the user named; without a namespace in that of the kubeconfig's context, as kubectl.

    Raises CommandError if there is no such kind or object, and ApiError.
    """
    from ssa_operator.kube.api.errors import ApiError

    resource = await resolve_kind(mapper, reference.kind, folders)
    within = (namespace or client.credentials.namespace) if resource.namespaced else ""
    try:
        return FoundObject(resource=resource, live=await client.get(resource, reference.name, within))
    except ApiError as error:
        if not error.not_found:
            raise
    raise CommandError(await _missing_object(client, resource, reference.name, within))


async def _missing_object(client: Client, resource: Resource, name: str, namespace: str) -> str:
    """The message about an object that does not exist, with the nearest names that the user may list."""
    message = f"there is no {resource.describe(namespace, name)}"
    names = await list_names(client, resource)
    elsewhere = sorted(where for where, each in names if each == name)
    if elsewhere:
        return f"{message}; there is one in namespace {' and '.join(elsewhere[:SUGGESTIONS])}: choose it with -n"
    near = nearest(name, sorted({each for where, each in names if where == namespace}))
    hint = _did_you_mean(near)
    return f"{message}; {hint}" if hint else message


async def list_names(client: Client, resource: Resource, namespace: str = "") -> list[tuple[str, str]]:
    """Namespace and name of the objects of a resource that the user may list, from their metadata alone.

    If the user may not list all namespaces, those of the kubeconfig's context are listed, and otherwise none.
    """
    from ssa_operator.kube.api.errors import ApiError
    from ssa_operator.kube.api.request import Scope

    possible = (namespace, namespace or client.credentials.namespace) if resource.namespaced else ("",)
    for where in dict.fromkeys(possible):
        try:
            found, _ = await client.list_scope(Scope(resource, where, metadata_only=True))
        except ApiError:
            continue
        return [(live.identity.namespace, live.identity.name) for live in found]
    return []


NAME = "SSA_OPERATOR_NAME"
"""The environment variable with the name of the local cluster, as `--name` gives it to `dev` and `cluster`."""


def cluster_target(kubeconfig: str | None, context: str | None) -> Target:
    """The cluster of the options --kubeconfig and --context, None if the user didn't give them. Raises CommandError if
    the user named no cluster, and only local clusters of other names run.
    """
    if kubeconfig is None and context is None and not credentials.is_configured():
        local = {path.parent.name: path for path in running_clusters()}
        name = os.environ.get(NAME) or "default"
        if name in local:
            command = f"export KUBECONFIG={shlex.quote(str(local[name]))}"
            streams.error(f"There is no kubeconfig, so this is the local cluster {name}; as {command}")
            return Target(kubeconfig=str(local[name]))
        if local:
            raise CommandError(_others(name, local))
    return Target(kubeconfig=kubeconfig, context=context)


def _others(name: str, running: Collection[str]) -> str:
    """The message about local clusters of other names than `name`."""
    commands = (f'`export KUBECONFIG="$(ssa-operator cluster kubeconfig --name {each})"`' for each in running)
    uses = " and ".join(f"{command} uses {each}" for each, command in zip(running, commands, strict=True))
    start = "ssa-operator cluster start" + (f" --name {name}" if name != "default" else "")
    return f"there is no kubeconfig, and no local cluster {name} runs; {uses}, `{start}` starts {name}"


def running_clusters() -> list[Path]:
    """The kubeconfigs of the local clusters that run."""
    try:
        from ssa_operator.devcluster import cluster_files, processes
        from ssa_operator.devcluster.cluster import state_directory
        from ssa_operator.devcluster.components import Layout
    except ModuleNotFoundError:  # without the extra `dev` there are no local clusters
        return []
    root = state_directory()
    directories = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    running = (path for path in directories if processes.is_alive(path) and cluster_files.read_record(path) is not None)
    return [Layout(directory=path).kubeconfig for path in running]
