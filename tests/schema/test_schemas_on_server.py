"""What `check` refuses by the schemas, the API server refuses in a strict dry run, and what it accepts, it accepts."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.discovery import RESTMapper
from ssa_operator.kube.api.errors import ApiError
from ssa_operator.kube.api.openapi import read_openapi
from ssa_operator.kube.api.request import ApplyOptions
from ssa_operator.objects.built_in_kinds import KUBERNETES_VERSION
from ssa_operator.objects.identity import GroupKind, split_api_version
from ssa_operator.objects.json_codec import encode
from ssa_operator.objects.json_schema import Schema
from ssa_operator.objects.render_result import Document
from ssa_operator.objects.source_location import FieldPath, SourceLocation, field_text, value_at
from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.schema.kubernetes_schemas import QUANTITY, KubernetesSchemas, schemas_from_openapi
from ssa_operator.tools.findings import Severity
from ssa_operator.tools.schema_rules import bundled_schemas, check_schemas
from tests.operator.fixtures import client

__all__ = ["client"]

MANIFESTS = objects(
    """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}, annotations: {a: b}}
spec:
  replicas: 2
  revisionHistoryLimit: 3
  selector:
    matchLabels: {app: web}
    matchExpressions: [{key: app, operator: In, values: [web]}]
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 25%, maxUnavailable: 0}}
  template:
    metadata: {labels: {app: web}}
    spec:
      serviceAccountName: default
      terminationGracePeriodSeconds: 5
      securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}
      topologySpreadConstraints:
        - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      affinity:
        podAntiAffinity:
          preferredDuringSchedulingIgnoredDuringExecution:
            - {weight: 1, podAffinityTerm: {topologyKey: zone}}
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]
      tolerations: [{key: a, operator: Exists, effect: NoSchedule}]
      initContainers: [{name: init, image: "nginx:1.27", command: [sh, -c, "true"]}]
      containers:
        - name: web
          image: nginx:1.27
          imagePullPolicy: IfNotPresent
          ports: [{name: http, containerPort: 80, protocol: TCP}, {name: dns, containerPort: 80, protocol: UDP}]
          env:
            - {name: A, value: b}
            - {name: S, valueFrom: {secretKeyRef: {name: s, key: k}}}
            - {name: F, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
          envFrom: [{configMapRef: {name: c}}]
          resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 1}}
          readinessProbe: {httpGet: {path: /, port: http, httpHeaders: [{name: a, value: b}]}, periodSeconds: 3}
          livenessProbe: {tcpSocket: {port: 80}}
          lifecycle: {preStop: {exec: {command: [sleep, "1"]}}}
          securityContext: {capabilities: {drop: [ALL]}, allowPrivilegeEscalation: false}
          volumeMounts: [{name: config, mountPath: /config, readOnly: true}, {name: data, mountPath: /data}]
      volumes:
        - {name: config, configMap: {name: c, items: [{key: a, path: b}]}}
        - {name: data, emptyDir: {medium: Memory, sizeLimit: 1Gi}}
        - {name: secret, secret: {secretName: s}}
        - {name: claim, persistentVolumeClaim: {claimName: c}}
        - {name: host, hostPath: {path: /tmp}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  podManagementPolicy: Parallel
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 0}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: "postgres:17"}]}
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  type: ClusterIP
  selector: {app: web}
  sessionAffinity: ClientIP
  ports: [{name: http, port: 80, targetPort: http, protocol: TCP}, {name: other, port: 81, targetPort: 81}]
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: cron}
spec:
  schedule: "* * * * *"
  concurrencyPolicy: Forbid
  jobTemplate:
    spec:
      backoffLimit: 1
      template:
        spec: {restartPolicy: Never, containers: [{name: a, image: "nginx:1.27"}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: web}
spec:
  ingressClassName: nginx
  tls: [{hosts: [a.example.com], secretName: tls}]
  rules:
    - host: a.example.com
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {name: http}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: web}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
  ingress: [{from: [{podSelector: {matchLabels: {a: b}}}, {ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 80}]}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: web}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: web}
rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {a: b}
---
apiVersion: v1
kind: Secret
metadata: {name: secret}
type: Opaque
stringData: {a: b}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], volumeMode: Filesystem, resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: account}
automountServiceAccountToken: false
""",
    "manifests.yaml",
)


def document(body: Mapping[str, Any]) -> Document:
    here = SourceLocation("manifests.yaml", 1)
    return Document(body=body, location=here, location_of=lambda _: here)


def errors(body: Mapping[str, Any], schemas: KubernetesSchemas) -> list[str]:
    found = check_schemas([document(body)], schemas)
    return [str(each) for each in found if each.severity is Severity.ERROR]


def mutations(body: Mapping[str, Any], schemas: KubernetesSchemas) -> Iterator[tuple[str, dict[str, Any]]]:
    """The manifest with one mistake each: in every mapping, scalar, enum, required field and list map."""
    root = schemas.schema(body["apiVersion"], body["kind"])
    assert root is not None
    for path, schema in fields(body, root, (), schemas):
        value = value_at(body, path)
        if path in (("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")):
            continue  # the operator's own rules
        if isinstance(value, Mapping):
            if schema.get("properties"):
                yield f"{field_text(path)} with an unknown field", changed(body, (*path, "unknownField"), "a")
            for name in schema.get("required", ()):
                yield f"{field_text((*path, name))} missing", changed(body, (*path, name), None)
            if path:
                yield f"{field_text(path)} of a wrong type", changed(body, path, "a")
        elif isinstance(value, list):
            yield f"{field_text(path)} of a wrong type", changed(body, path, {"a": "b"})
            if schema.get("x-kubernetes-list-map-keys"):
                yield f"{field_text(path)} repeated", changed(body, path, [*value, value[0]])
        else:
            wrong: Any = {"a": "b"} if schema.get("type") == QUANTITY or "type" not in schema else "a"
            wrong = 5 if schema.get("type") == "string" else wrong
            yield f"{field_text(path)} of a wrong type", changed(body, path, wrong)
            if schema.get("enum"):
                yield f"{field_text(path)} not allowed", changed(body, path, "Wrong")


def fields(
    value: Any, schema: Schema, path: FieldPath, schemas: KubernetesSchemas
) -> Iterator[tuple[FieldPath, Schema]]:
    schema = schemas.resolved(schema)
    yield path, schema
    if isinstance(value, Mapping):
        for name, item in value.items():
            inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
            if inner:
                yield from fields(item, inner, (*path, name), schemas)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from fields(item, schema.get("items", {}), (*path, position), schemas)


def changed(body: Mapping[str, Any], path: FieldPath, value: Any) -> dict[str, Any]:
    found: Any = copy.deepcopy(body)
    inner = value_at(found, path[:-1])
    if value is None:
        inner.pop(path[-1], None)
    else:
        inner[path[-1]] = value
    return dict(found)


async def refusal(client: Client, discovery: RESTMapper, body: Mapping[str, Any]) -> str:
    """The API server's reason for the refusal of a strict apply; '' if it accepts the manifest."""
    resource = await discovery.resource(GroupKind(split_api_version(body["apiVersion"])[0], body["kind"]))
    try:
        await client.apply(resource, "default", body["metadata"]["name"], encode(body), ApplyOptions(dry_run=True))
    except ApiError as error:
        return str(error)
    return ""


@pytest.mark.cluster
async def test_the_api_server_accepts_what_check_accepts(client: Client) -> None:
    discovery, schemas = RESTMapper(client), bundled_schemas(KUBERNETES_VERSION)
    for each in MANIFESTS:
        assert errors(each.body, schemas) == []
        assert await refusal(client, discovery, each.body) == ""


@pytest.mark.cluster
@pytest.mark.slow
async def test_the_api_server_refuses_what_check_refuses(client: Client) -> None:
    discovery, schemas = RESTMapper(client), bundled_schemas(KUBERNETES_VERSION)
    accepted: list[str] = []
    refused = 0
    for each in MANIFESTS:
        for mistake, body in mutations(each.body, schemas):
            if not errors(body, schemas):
                continue
            refused += 1
            if not await refusal(client, discovery, body):
                accepted.append(f"{each.body['kind']}: {mistake}: {errors(body, schemas)}")
    assert accepted == []
    assert refused > 300


@pytest.mark.cluster
async def test_the_schemas_of_the_package_are_those_of_the_api_server(client: Client) -> None:
    version, documents = await read_openapi(client)
    assert version == KUBERNETES_VERSION
    served = schemas_from_openapi(version, documents)
    bundled = bundled_schemas(KUBERNETES_VERSION)
    # Other tests install CRDs on the same server.
    kinds = {api_version: served.kinds[api_version] for api_version in bundled.kinds}
    statuses = {api_version: served.statuses[api_version] for api_version in bundled.statuses}
    assert replace(served, kinds=kinds, statuses=statuses, complete=False) == bundled
