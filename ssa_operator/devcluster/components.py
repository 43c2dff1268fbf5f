"""The programs, their versions, and their command lines: a pure function of the folder, the ports and the options.

Promises:
- Every component listens on 127.0.0.1 only. All connections between components are TLS with client certificates,
  etcd's included. kwok's own port is plain HTTP: it serves the kubelet API of fake pods.
- No component reads a file outside the cluster's folder, the binaries' folder and this package.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from ssa_operator.devcluster.processes import ProcessCommand

KUBERNETES = "1.36.3"
ETCD = "3.6.8"
"""The version that Kubernetes' own go.mod of this release requires."""
KWOK = "0.8.0"
STORAGE = ("etcd", "kube-apiserver")
"""The programs that answer requests. With them alone, an operator can reconcile."""
CONTROLLERS = ("kube-controller-manager", "kube-scheduler", "kwok")
"""The programs that make pods of Deployments and collect garbage."""
PROGRAMS = STORAGE + CONTROLLERS

ENVTEST = "1.36.2"
"""The newest envtest archive of this minor version. It has kube-apiserver for macOS; Kubernetes' releases do not."""
ENVTEST_SHA512 = {
    "darwin-amd64": "b4fe9f973cd1992e3880f8b230ed32c0c243b83371591e3e3315f4404df2cdbef8ee94eeb9bb245b7e5feb987d5c4a76"
    "c43e0877654ab73f00d7bbc2b9984514",
    "darwin-arm64": "9278f9e5af556b2f1f2d139769c1f0d717c7b4426917fdebdba898bcb725a916e4910d6160886194ff9be9589ea7c5c3"
    "2c2b8ae0754703874b7c8ba8ddfc41ce",
}
"""Its checksums by platform, from envtest-releases.yaml in kubernetes-sigs/controller-tools."""


class UnavailableError(Exception):
    """One source of the programs is unavailable. The message has the reason."""


STAGES = Path(__file__).parent / "stages"
AUDIT_POLICY = Path(__file__).parent / "audit-policy.yaml"
SERVICE_RANGE = "10.0.0.0/16"
SERVICE_ADDRESS = "10.0.0.1"
"""The first address of the range. The Service `kubernetes` gets it, so the serving certificate names it."""


class Ports(Struct, frozen=True, kw_only=True):
    """The loopback ports of etcd and kube-apiserver."""

    etcd: int
    etcd_peer: int
    apiserver: int


class Layout(Struct, frozen=True, kw_only=True):
    """The paths of one cluster's files, all below `directory`."""

    directory: Path

    @property
    def certificates(self) -> Path:
        """The folder of certificates and keys."""
        return self.directory / "certificates"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.directory / "kubeconfig"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, one JSON event a line."""
        return self.directory / "audit.log"

    def certificate(self, name: str) -> str:
        """The path of the certificate called `name`."""
        return str(self.certificates / f"{name}.crt")

    def key(self, name: str) -> str:
        """The path of the key called `name`."""
        return str(self.certificates / f"{name}.key")

    def component_kubeconfig(self, name: str) -> Path:
        """The kubeconfig of a component."""
        return self.certificates / f"{name}.kubeconfig"

    def log(self, name: str) -> Path:
        """The output of a component."""
        return self.directory / f"{name}.log"


class ComponentOptions(Struct, frozen=True, kw_only=True):
    """The fields of a ClusterSpec that are flags of a component."""

    audit: bool
    admission_plugins: tuple[str, ...]
    feature_gates: tuple[str, ...]
    stable_only: bool
    controllers: str
    disabled_plugins: tuple[str, ...] = ()
    """Admission plugins that are disabled in addition."""

    @property
    def component_gates(self) -> tuple[str, ...]:
        """The arguments for the feature gates of every component."""
        return ("--feature-gates=AllAlpha=false,AllBeta=false",) if self.stable_only else ()


def storage(binaries: Path, layout: Layout, ports: Ports, options: ComponentOptions) -> tuple[ProcessCommand, ...]:
    """The components that have to be ready before the others start, in order. The folder `binaries` has them."""
    return (
        _command(binaries, layout, "etcd", *_etcd(layout, ports)),
        _command(binaries, layout, "kube-apiserver", *_apiserver(layout, ports, options)),
    )


def clients(binaries: Path, layout: Layout, kwok_port: int, options: ComponentOptions) -> tuple[ProcessCommand, ...]:
    """The components that are clients of the API server. The folder `binaries` has the programs."""
    return (
        _command(binaries, layout, "kube-controller-manager", *_controller_manager(layout, options)),
        _command(
            binaries,
            layout,
            "kube-scheduler",
            f"--kubeconfig={layout.component_kubeconfig('kube-scheduler')}",
            "--leader-elect=false",
            "--secure-port=0",
            "--kube-api-qps=300",
            "--kube-api-burst=600",
            *options.component_gates,
        ),
        _command(
            binaries,
            layout,
            "kwok",
            f"--kubeconfig={layout.component_kubeconfig('kwok')}",
            "--manage-all-nodes",
            "--node-ip=127.0.0.1",
            f"--server-address=127.0.0.1:{kwok_port}",
            *(f"--config={stage}" for stage in sorted(STAGES.glob("*.yaml"))),
        ),
    )


def _command(binaries: Path, layout: Layout, name: str, *arguments: str) -> ProcessCommand:
    argv = (str(binaries / name), *arguments)
    return ProcessCommand(name=name, argv=argv, log=layout.log(name), directory=layout.directory)


def _etcd(layout: Layout, ports: Ports) -> tuple[str, ...]:
    client = f"https://127.0.0.1:{ports.etcd}"
    peer = f"https://127.0.0.1:{ports.etcd_peer}"
    return (
        f"--data-dir={layout.directory / 'etcd'}",
        "--unsafe-no-fsync",  # the data need not survive a power cut, because it does not outlive the cluster
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        f"--cert-file={layout.certificate('etcd')}",
        f"--key-file={layout.key('etcd')}",
        f"--trusted-ca-file={layout.certificate('ca')}",
        "--client-cert-auth",
        f"--peer-cert-file={layout.certificate('etcd')}",
        f"--peer-key-file={layout.key('etcd')}",
        f"--peer-trusted-ca-file={layout.certificate('ca')}",
        "--peer-client-cert-auth",
        "--log-level=warn",
    )


def _apiserver(layout: Layout, ports: Ports, options: ComponentOptions) -> tuple[str, ...]:
    arguments = [
        f"--etcd-servers=https://127.0.0.1:{ports.etcd}",
        f"--etcd-cafile={layout.certificate('ca')}",
        f"--etcd-certfile={layout.certificate('etcd-client')}",
        f"--etcd-keyfile={layout.key('etcd-client')}",
        f"--secure-port={ports.apiserver}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        # The Endpoints of the Service `kubernetes` must not be loopback, and no process in a fake pod calls it.
        "--endpoint-reconciler-type=none",
        f"--tls-cert-file={layout.certificate('kube-apiserver')}",
        f"--tls-private-key-file={layout.key('kube-apiserver')}",
        f"--client-ca-file={layout.certificate('ca')}",
        f"--service-account-key-file={layout.certificate('service-account')}",
        f"--service-account-signing-key-file={layout.key('service-account')}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--authorization-mode=RBAC",
        "--allow-privileged",
        # It taints new nodes, and the controller that removes the taint does not run (ClusterSpec.controllers).
        f"--disable-admission-plugins={','.join(('TaintNodesByCondition', *options.disabled_plugins))}",
    ]
    if options.admission_plugins:
        arguments.append(f"--enable-admission-plugins={','.join(options.admission_plugins)}")
    arguments += options.component_gates
    if options.stable_only:
        arguments.append("--runtime-config=api/alpha=false,api/beta=false")
    if options.feature_gates:
        arguments.append(f"--feature-gates={','.join(f'{gate}=true' for gate in options.feature_gates)}")
    if options.audit:
        arguments += [
            f"--audit-policy-file={AUDIT_POLICY}",
            f"--audit-log-path={layout.audit_log}",
            # Megabytes; by default, the server begins a new file after 100.
            "--audit-log-maxsize=1000",
            # The server writes an event before it answers the request, so that a test can read the event at once.
            "--audit-log-mode=blocking",
        ]
    return tuple(arguments)


def _controller_manager(layout: Layout, options: ComponentOptions) -> tuple[str, ...]:
    return (
        f"--kubeconfig={layout.component_kubeconfig('kube-controller-manager')}",
        f"--service-account-private-key-file={layout.key('service-account')}",
        f"--root-ca-file={layout.certificate('ca')}",
        # It creates this folder, by default below /usr.
        f"--flex-volume-plugin-dir={layout.directory / 'volume-plugins'}",
        "--leader-elect=false",
        "--secure-port=0",
        f"--controllers={options.controllers}",
        # By default 20 requests a second, for a shared API server: hundreds of Deployments would take minutes.
        "--kube-api-qps=300",
        "--kube-api-burst=600",
        *options.component_gates,
    )
