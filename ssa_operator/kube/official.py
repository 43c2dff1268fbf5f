"""The part of the official client that reads credentials, without the 700 model modules of its packages.

`import kubernetes.aio.config` runs three package `__init__`s that import every model of the API: more than a second of
CPU before the first request. The modules used here need none of it.

Promises:
- Only modules of `kubernetes.aio.config` are executed; nothing of theirs stays in `sys.modules`.
- A later `import kubernetes` by anyone gets the whole, real package; if it was imported before, that one is used.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

_MODULES = ("config_exception", "exec_provider", "incluster_config", "kube_config")


@cache
def config() -> SimpleNamespace:
    """The modules of `kubernetes.aio.config` by their names: `config().kube_config.KubeConfigMerger`.

    Raises ModuleNotFoundError where the package `kubernetes` is not installed.
    """
    if "kubernetes" in sys.modules:
        return _import()
    spec = find_spec("kubernetes")  # of a top-level package: finds it without executing it
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("the package kubernetes is not installed; `pip install ssa-operator` brings it")
    root = next(iter(spec.submodule_search_locations))
    stand_ins = {
        "kubernetes": _package("kubernetes", root),
        "kubernetes.aio": _package("kubernetes.aio", f"{root}/aio"),
        "kubernetes.aio.config": _package("kubernetes.aio.config", f"{root}/aio/config"),
        # Named in import statements there, used only by functions that are not called here.
        "kubernetes.aio.client": _package(
            "kubernetes.aio.client", f"{root}/aio/client", ApiClient=None, Configuration=None
        ),
    }
    sys.modules.update(stand_ins)
    try:
        return _import()
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "kubernetes"]:
            del sys.modules[name]


def _import() -> SimpleNamespace:
    return SimpleNamespace(**{name: import_module(f"kubernetes.aio.config.{name}") for name in _MODULES})


def _package(name: str, path: str, **attributes: Any) -> ModuleType:
    package = ModuleType(name)
    package.__spec__ = ModuleSpec(name, None, is_package=True)
    package.__path__ = [path]
    vars(package).update(attributes)
    return package
