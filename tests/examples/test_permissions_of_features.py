"""A folder that uses each feature which needs a permission runs under exactly the permissions that `ssa-operator rbac`
prints: the API server refuses none of the operator's requests.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ssa_operator.devcluster.cluster import Cluster
from tests.cli.process import started
from tests.devcluster.waiting import until
from tests.examples.printed_roles import MakeAccount
from tests.operator.harness import (
    ECHOES,
    PATIENCE,
    ROOT,
    Desk,
    config_map,
    echo,
    holds,
    other_than,
)

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

CONFIG = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}-config"}
data:
  replicas: "{{ spec.replicas }}"
  named: "{{ lookup('v1', 'Secret', 'pull', namespace='ELSEWHERE').type }}"
  all: "{{ lookup_all('v1', 'ServiceAccount', namespace='') | length > 1 }}"
  jobs: "{{ api_available('batch/v1', 'Job') }}"
"""

AFTER = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}-after"}
data: {replicas: "{{ child('ConfigMap', name ~ '-config').data.replicas }}"}
"""

ELSEWHERE = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}-elsewhere", namespace: ELSEWHERE}
data: {replicas: "{{ spec.replicas }}"}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: ELSEWHERE}
value: 1
description: "{{ spec.replicas }}"
"""

ONE_OF_THEM = """\
{% if spec.replicas == 1 %}
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}-first"}
{% else %}
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}-second"}
{% endif %}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}-once", annotations: {ssa-operator.dev/apply: Once}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: adopted}
data: {replicas: "{{ spec.replicas }}"}
"""

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: "{{ name }}"}
spec:
  selector: {matchLabels: {app: "{{ name }}"}}
  template:
    metadata: {labels: {app: "{{ name }}"}}
    spec:
      nodeSelector: {no: node}
      containers: [{name: main, image: "registry.k8s.io/pause:3.10"}]
"""

RECREATED = """\
apiVersion: v1
kind: Secret
metadata: {name: "{{ name }}-secret", annotations: {ssa-operator.dev/recreate: Background}}
immutable: true
stringData: {password: "{{ generated() }}", replicas: "{{ spec.replicas }}"}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: "{{ name }}", annotations: {ssa-operator.dev/recreate: Orphan}}
spec:
  serviceName: web
  replicas: 1
  selector: {matchLabels: {app: "{{ name }}-db"}}
  template:
    metadata: {labels: {app: "{{ name }}-db"}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{name: main, image: "registry.k8s.io/pause:3.10"}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: CLASS
        resources: {requests: {storage: "{{ spec.replicas }}Gi"}}
"""

ROLES = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: "{{ name }}"}
rules: [{apiGroups: [batch], resources: [cronjobs], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: "{{ name }}"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: default}]
"""

HOOKS = {
    "flow": 'metadata: {name: "{{ name }}-hook", annotations: {ssa-operator.dev/on: finalize}}',
    "block": 'metadata:\n  name: "{{ name }}-hook"\n  annotations:\n    ssa-operator.dev/on: finalize',
}


@pytest.fixture
async def elsewhere(desk: Desk) -> AsyncIterator[str]:
    """Another namespace, with a Secret, and a StorageClass of that name whose volumes can grow."""
    name = f"elsewhere-{uuid.uuid4().hex[:8]}"
    standard = await desk.read("storageclasses.storage.k8s.io", "standard")
    kept = {key: standard[key] for key in ("apiVersion", "kind", "provisioner", "volumeBindingMode")}
    await desk.apply({**kept, "metadata": {"name": name}, "allowVolumeExpansion": True})
    await desk.kubectl("create", "namespace", name)
    await desk.kubectl("create", "secret", "generic", "pull", f"--namespace={name}")
    yield name
    await desk.kubectl("delete", f"storageclass/{name}", f"namespace/{name}", "--wait=false")


@pytest.mark.parametrize(
    ("hook", "limited"), [("flow", False), ("block", True)], ids=["all namespaces", "one namespace"]
)
async def test_no_request_of_any_feature_is_refused(
    hook: str, limited: bool, cluster: Cluster, desk: Desk, elsewhere: str, account: MakeAccount, tmp_path: Path
) -> None:
    files = {
        "config": CONFIG,
        "after": AFTER,
        "elsewhere": ELSEWHERE,
        "one": ONE_OF_THEM,
        "deployment": DEPLOYMENT,
        "recreated": RECREATED,
        "roles": ROLES,
        "hook": f"apiVersion: v1\nkind: ConfigMap\n{HOOKS[hook]}\n",
    }
    folder = tmp_path / "templates" / ECHOES
    folder.mkdir(parents=True)
    (folder / "_settings.yaml").write_text("clusterScope: true\n")
    for name, text in files.items():
        written = text.replace("ELSEWHERE", elsewhere).replace("CLASS", elsewhere)
        (folder / f"{name}.yaml.j2").write_text(written)
    await desk.create(config_map("adopted", replicas="0"))

    arguments = [f"--templates={folder.parent}", f"--crds={ROOT / 'crds'}"]
    arguments += [f"--namespace={desk.namespace}"] if limited else []
    async with account(*arguments) as operator:
        only = [f"--kubeconfig={operator.kubeconfig}", "--listen=", "--interval=1s", f"--namespace={desk.namespace}"]
        async with started("run", *arguments, *only, POD_NAMESPACE=desk.namespace) as command:
            await command.says("starts with")
            await desk.apply(echo("web", 1))
            for child in ("web-config", "web-after", "adopted"):
                await desk.until("configmaps", child, lambda body: body["data"]["replicas"] == "1")
            await desk.read("configmaps", "web-first")
            secret = await desk.read("secrets", "web-secret")
            database = await desk.read("statefulsets.apps", "web")
            claim = "data-web-0"
            await desk.until("persistentvolumeclaims", claim, lambda body: body["status"].get("phase") == "Bound")
            await until(lambda: ("", "pods", "list") in operator.used(cluster), PATIENCE)

            await desk.apply(echo("web", 2))
            await desk.gone("configmaps", "web-first")
            await desk.until("secrets", "web-secret", other_than(secret))
            await desk.until("statefulsets.apps", "web", other_than(database))
            await desk.until("configmaps", "adopted", holds(replicas="2"))
            await desk.kubectl("delete", "configmap", "web-second")
            await desk.read("configmaps", "web-second")

            await desk.delete("echo", "web")
            await desk.gone("priorityclasses.scheduling.k8s.io", elsewhere)
        assert not any("permission missing" in line or "permissions are missing" in line for line in command.lines)
    assert operator.refused(cluster) == []
