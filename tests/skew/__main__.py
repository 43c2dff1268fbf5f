"""`python -m tests.skew VERSION [ARGUMENT...]`: runs the tests of the operator against another API server.

VERSION is 1.34 or 1.35, whose programs it builds once from Go modules (11 minutes), or `stable` for the usual API
server without alpha and beta features. The arguments are pytest's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.go_programs import CACHE, build_once, go_build, go_install, required_version
from tests.packaging.checkout import ROOT

STABLE = "stable"
TESTS = ("tests/informers", "tests/operator", "tests/reconcile", "tests/kube")
OPTIONS = ("--numprocesses=3", "--dist=loadfile", "-m", "cluster and not slow")
PACKAGES = (
    "go.etcd.io/etcd/server/v3",
    "k8s.io/kubernetes/cmd/kube-apiserver",
    "k8s.io/kubernetes/cmd/kube-controller-manager",
    "k8s.io/kubernetes/cmd/kube-scheduler",
)
KWOK = "sigs.k8s.io/kwok/cmd/kwok@v0.8.0"


def programs(version: str) -> Path:
    """The folder with the programs of this Kubernetes. kwok is that of the usual control plane."""
    module = Path(__file__).parent / version
    patch = required_version(module, "k8s.io/kubernetes")

    def build(new: Path) -> None:
        named = {"gitVersion": f"v{patch}", "gitMajor": "1", "gitMinor": version.removeprefix("1.")}
        variables = " ".join(f"-X k8s.io/component-base/version.{name}={value}" for name, value in named.items())
        go_build(module, new, *PACKAGES, variables=variables)
        (new / "server").rename(new / "etcd")
        go_install(module, new, KWOK)

    return build_once(CACHE / "skew" / f"kubernetes-{patch}" / "bin" / "kube-apiserver", build).parent


def main() -> int:
    """Returns pytest's exit code."""
    known = (*sorted(path.parent.name for path in Path(__file__).parent.glob("*/go.mod")), STABLE)
    version = sys.argv[1] if len(sys.argv) > 1 else ""
    if version not in known:
        print(f"usage: python -m tests.skew {'|'.join(known)} [ARGUMENT...]", file=sys.stderr)
        return 2
    where = {"STABLE_FEATURES_ONLY": "1"} if version == STABLE else {"KUBEBUILDER_ASSETS": str(programs(version))}
    command = [sys.executable, "-m", "pytest", *OPTIONS, *TESTS, *sys.argv[2:]]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **where}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
