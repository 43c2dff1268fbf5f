"""The Tiltfile evaluated without Tilt, with functions in the place of Tilt's that write down what they are asked for.

Promises:
- What is not in Starlark, as far as the syntax tree tells, is refused. So is a call of a function, or with an
  argument, that is not below.
- Files are the repository's, and `kustomize` is the real one, of kubectl.
- Nothing is said of what Tilt makes of it: whether it accepts the values, builds, deploys, or updates a running pod.
"""

from __future__ import annotations

import ast
import posixpath
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from tests.packaging.checkout import ROOT

CONTEXT = "kind-ssa-operator"

# https://github.com/google/starlark-go/blob/master/doc/spec.md, and what Tilt allows beyond: `for` and `if` outside
# functions.
_STARLARK = (
    *(
        ast.Module,
        ast.Expr,
        ast.Assign,
        ast.AugAssign,
        ast.For,
        ast.If,
        ast.Pass,
        ast.FunctionDef,
        ast.arguments,
        ast.arg,
    ),
    *(
        ast.Return,
        ast.Call,
        ast.keyword,
        ast.Attribute,
        ast.Subscript,
        ast.Slice,
        ast.Name,
        ast.Constant,
        ast.Load,
        ast.Store,
    ),
    *(ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.DictComp, ast.comprehension, ast.IfExp, ast.Compare, ast.cmpop),
    *(ast.BoolOp, ast.boolop, ast.BinOp, ast.operator, ast.UnaryOp, ast.Not, ast.USub),
)
_NOT_STARLARK = (ast.Is, ast.IsNot, ast.Pow, ast.MatMult)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image that Tilt is to build: its context and Dockerfile as they are written, relative to the repository."""

    context: str
    dockerfile: str
    target: str
    build_args: Mapping[str, str]
    syncs: Mapping[str, str]
    rebuilt_by: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class Resource:
    """A resource of Tilt's: the selectors of its objects, the commands of a local one, whether it waits until somebody
    asks for it, and what it is started after.
    """

    objects: list[str] = field(default_factory=list)
    command: Sequence[str] = ()
    served: Sequence[str] = ()
    on_demand: bool = False
    after: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind that Tilt takes for a workload, and where its objects name images."""

    pattern: str
    api_version: str
    image_paths: tuple[str, ...]

    def matches(self, manifest: Mapping[str, Any]) -> bool:
        """Whether `manifest` is of this kind."""
        found = re.search(self.pattern, manifest["kind"], re.IGNORECASE) is not None
        return found and manifest["apiVersion"] == self.api_version


@dataclass(slots=True)
class Evaluated:
    """Everything that the Tiltfile declares."""

    contexts: tuple[str, ...] = ()
    enabled: tuple[str, ...] = ()
    images: dict[str, Image] = field(default_factory=dict)
    manifests: list[dict[str, Any]] = field(default_factory=list)
    resources: dict[str, Resource] = field(default_factory=dict)
    kinds: list[Kind] = field(default_factory=list)

    def before(self, name: str) -> set[str]:
        """The resources that are ready before `name` is started."""
        found: set[str] = set()
        todo = [name]
        while todo:
            after = self.resources[todo.pop()].after
            todo += [each for each in after if each not in found]
            found.update(after)
        return found

    def resource_of(self, manifest: Mapping[str, Any]) -> str | None:
        """The resource that `manifest` is applied with: one that selects it, or one of its own if it is a workload."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        for resource, content in self.resources.items():
            selected = {
                tuple(part.replace("\0", ":") for part in each.replace("\\:", "\0").lower().split(":"))
                for each in content.objects
            }
            if (name, kind.lower()) in selected:
                return resource
        workload = kind in ("Deployment", "StatefulSet", "Job") or any(each.matches(manifest) for each in self.kinds)
        return name if workload and name in self.resources else None


def evaluate(given: Mapping[str, str | list[str]]) -> Evaluated:
    """What the Tiltfile declares when `given` stands behind `tilt up --`; raises what its evaluation raises."""
    text = (ROOT / "Tiltfile").read_text()
    tree = ast.parse(text, "Tiltfile")
    _check(tree)
    evaluated = Evaluated()
    exec(compile(tree, "Tiltfile", "exec"), {"__builtins__": {"str": str, "len": len}, **_functions(evaluated, given)})
    return evaluated


def _check(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        foreign = not isinstance(node, _STARLARK) or isinstance(node, _NOT_STARLARK)
        chained = isinstance(node, ast.Compare) and len(node.ops) > 1
        if foreign or chained:
            raise SyntaxError(f"Tiltfile:{getattr(node, 'lineno', '?')}: {type(node).__name__} is not Starlark")


def _read_all(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


def _kustomize(path: str) -> str:
    command = [str(Path(sys.executable).parent / "kubectl"), "kustomize", path]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _functions(evaluated: Evaluated, given: Mapping[str, str | list[str]]) -> dict[str, object]:
    """The functions of https://docs.tilt.dev/api.html that the Tiltfile calls, with the arguments that it uses."""
    known: set[str] = set()

    def define_string(name: str, *, usage: str) -> None:
        assert usage
        known.add(name)

    def define_string_list(name: str, *, args: bool, usage: str) -> None:
        assert usage
        known.add(name)

    def set_enabled_resources(resources: list[str]) -> None:
        evaluated.enabled = tuple(resources)

    def parse() -> dict[str, str | list[str]]:
        assert set(given) <= known, f"the Tiltfile knows {sorted(known)}"
        return dict(given)

    def allow_k8s_contexts(contexts: list[str]) -> None:
        evaluated.contexts += tuple(contexts)

    def docker_build(
        ref: str,
        context: str,
        *,
        dockerfile: str = "",
        target: str = "",
        build_args: Mapping[str, str] = {},
        live_update: Sequence[tuple[str, object]] = (),
    ) -> None:
        assert ref not in evaluated.images
        evaluated.images[ref] = Image(
            context=context,
            dockerfile=dockerfile or f"{context}/Dockerfile",
            target=target,
            build_args=build_args,
            syncs=dict(step for kind, step in live_update if kind == "sync"),  # type: ignore[misc]
            rebuilt_by=tuple(path for kind, paths in live_update if kind == "rebuild" for path in paths),  # type: ignore[attr-defined]
        )

    def k8s_yaml(source: str | list[str]) -> None:
        paths = source if isinstance(source, list) else [source]
        texts = [each if "\n" in each else (ROOT / each).read_text() for each in paths]
        evaluated.manifests += [manifest for text in texts for manifest in _read_all(text) if manifest]

    def k8s_resource(
        workload: str = "",
        *,
        new_name: str = "",
        objects: Sequence[str] = (),
        resource_deps: Sequence[str] = (),
        port_forwards: int = 0,
        labels: Sequence[str] = (),
    ) -> None:
        resource = evaluated.resources.setdefault(new_name or workload, Resource())
        resource.objects += objects
        resource.after += tuple(resource_deps)

    def local_resource(
        name: str,
        *,
        cmd: Sequence[str],
        serve_cmd: Sequence[str] = (),
        deps: Sequence[str] = (),
        resource_deps: Sequence[str] = (),
        auto_init: bool = True,
        trigger_mode: str = "auto",
        labels: Sequence[str] = (),
    ) -> None:
        assert name not in evaluated.resources
        on_demand = not auto_init and trigger_mode == "manual"
        evaluated.resources[name] = Resource(
            command=cmd, served=serve_cmd, on_demand=on_demand, after=tuple(resource_deps)
        )

    def listdir(path: str, *, recursive: bool = False) -> list[str]:
        found = (ROOT / path).glob("**/*" if recursive else "*")
        return sorted(str(each) for each in found if each.is_file())

    def k8s_kind(kind: str, *, api_version: str, image_json_path: Sequence[str] = ()) -> None:
        evaluated.kinds.append(Kind(pattern=kind, api_version=api_version, image_paths=tuple(image_json_path)))

    return {
        "config": SimpleNamespace(
            define_string=define_string,
            define_string_list=define_string_list,
            parse=parse,
            set_enabled_resources=set_enabled_resources,
        ),
        "os": SimpleNamespace(
            path=SimpleNamespace(
                exists=lambda path: (ROOT / path).exists(), dirname=posixpath.dirname, basename=posixpath.basename
            )
        ),
        "TRIGGER_MODE_MANUAL": "manual",
        "allow_k8s_contexts": allow_k8s_contexts,
        "k8s_context": lambda: CONTEXT,
        "docker_build": docker_build,
        "sync": lambda local, remote: ("sync", (local, remote)),
        "fall_back_on": lambda paths: ("rebuild", paths),
        "listdir": listdir,
        "read_yaml": lambda path: yaml.safe_load((ROOT / path).read_text()),
        "read_yaml_stream": lambda path: _read_all((ROOT / path).read_text()),
        "decode_yaml_stream": _read_all,
        "kustomize": _kustomize,
        "k8s_yaml": k8s_yaml,
        "k8s_resource": k8s_resource,
        "local_resource": local_resource,
        "k8s_kind": k8s_kind,
    }
