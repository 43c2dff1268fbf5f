# ruff: noqa: E501 - objects in few lines
"""Valid objects of the common built-in kinds, with all the fields that the API server checks."""

from __future__ import annotations


def _one_line(text: str) -> str:
    return " ".join(text.split())


POD_SPEC = _one_line("""
{
  restartPolicy: Always, terminationGracePeriodSeconds: 40, dnsPolicy: None, serviceAccountName: default,
  hostname: web, subdomain: webs, schedulerName: default-scheduler, nodeSelector: {disk: ssd}, enableServiceLinks: false,
  shareProcessNamespace: true, os: {name: linux}, setHostnameAsFQDN: false,
  dnsConfig: {nameservers: [10.0.0.10], searches: [a.example.com], options: [{name: ndots, value: "2"}]},
  hostAliases: [{ip: 10.1.2.3, hostnames: [a.example.com]}],
  imagePullSecrets: [{name: pull}],
  readinessGates: [{conditionType: example.com/ready}],
  securityContext: {
    runAsUser: 1000, runAsGroup: 1000, runAsNonRoot: true, fsGroup: 2000, fsGroupChangePolicy: OnRootMismatch,
    supplementalGroups: [1, 2], supplementalGroupsPolicy: Merge, seccompProfile: {type: RuntimeDefault},
    sysctls: [{name: net.core.somaxconn, value: "1024"}],
  },
  tolerations: [
    {key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 5}, {key: c, operator: Exists},
  ],
  topologySpreadConstraints: [
    {maxSkew: 1, minDomains: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, nodeAffinityPolicy: Honor,
     nodeTaintsPolicy: Ignore, labelSelector: {matchLabels: {app: web}}, matchLabelKeys: [pod-template-hash]},
    {maxSkew: 1, topologyKey: host, whenUnsatisfiable: ScheduleAnyway},
  ],
  affinity: {
    nodeAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [
          {matchExpressions: [{key: a, operator: In, values: [b]}, {key: c, operator: Gt, values: ["3"]}],
           matchFields: [{key: metadata.name, operator: In, values: [node]}]},
        ],
      },
      preferredDuringSchedulingIgnoredDuringExecution: [
        {weight: 5, preference: {matchExpressions: [{key: a, operator: Exists}]}},
      ],
    },
    podAffinity: {
      requiredDuringSchedulingIgnoredDuringExecution: [
        {topologyKey: zone, namespaces: [other], labelSelector: {matchExpressions: [{key: a, operator: NotIn, values: [b]}]}},
      ],
    },
    podAntiAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: [
        {weight: 100, podAffinityTerm: {topologyKey: zone, labelSelector: {matchLabels: {a: b}}, namespaceSelector: {}}},
      ],
    },
  },
  initContainers: [
    {name: init, image: "nginx:1.27", command: [sh]},
    {name: side, image: "nginx:1.27", restartPolicy: Always, startupProbe: {exec: {command: [a]}, failureThreshold: 9}},
  ],
  containers: [
    {
      name: web, image: "nginx:1.27", imagePullPolicy: IfNotPresent, command: [a], args: [b], workingDir: /w,
      terminationMessagePolicy: File, terminationMessagePath: /dev/log,
      ports: [
        {name: http, containerPort: 80, protocol: TCP}, {name: dns, containerPort: 53, protocol: UDP, hostPort: 53},
      ],
      env: [
        {name: A, value: b},
        {name: S, valueFrom: {secretKeyRef: {name: s, key: k, optional: true}}},
        {name: C, valueFrom: {configMapKeyRef: {name: c, key: k}}},
        {name: F, valueFrom: {fieldRef: {fieldPath: metadata.name}}},
        {name: L, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}},
        {name: R, valueFrom: {resourceFieldRef: {containerName: web, resource: limits.cpu, divisor: 1m}}},
      ],
      envFrom: [{configMapRef: {name: c}, prefix: A_}, {secretRef: {name: s}}],
      resources: {
        requests: {cpu: 100m, memory: 64Mi, example.com/device: 1},
        limits: {cpu: 1, memory: 128Mi, ephemeral-storage: 1Gi, example.com/device: 1},
      },
      resizePolicy: [{resourceName: cpu, restartPolicy: NotRequired}],
      readinessProbe: {
        httpGet: {path: /, port: http, scheme: HTTP, host: example.com, httpHeaders: [{name: A-b, value: c}]},
        periodSeconds: 3, timeoutSeconds: 2, initialDelaySeconds: 1, successThreshold: 2, failureThreshold: 4,
      },
      livenessProbe: {tcpSocket: {port: 80}, terminationGracePeriodSeconds: 5, successThreshold: 1},
      startupProbe: {grpc: {port: 9000, service: a}},
      lifecycle: {postStart: {exec: {command: [a]}}, preStop: {sleep: {seconds: 5}}},
      securityContext: {
        capabilities: {add: [NET_ADMIN], drop: [ALL]}, allowPrivilegeEscalation: false, privileged: false,
        runAsUser: 5, runAsGroup: 6, readOnlyRootFilesystem: true, procMount: Default, seccompProfile: {type: Localhost, localhostProfile: a/b},
      },
      volumeMounts: [
        {name: config, mountPath: /config, readOnly: true, recursiveReadOnly: Disabled},
        {name: data, mountPath: /data, subPath: a/b, mountPropagation: None},
        {name: data, mountPath: /expr, subPathExpr: $(A)},
      ],
      volumeDevices: [{name: claim, devicePath: /dev/x}],
    },
    {name: other, image: "nginx:1.27"},
  ],
  volumes: [
    {name: config, configMap: {name: c, defaultMode: 420, optional: true, items: [{key: a, path: b, mode: 256}]}},
    {name: data, emptyDir: {medium: Memory, sizeLimit: 1Gi}},
    {name: secret, secret: {secretName: s, defaultMode: 256, items: [{key: a, path: b/c}]}},
    {name: claim, persistentVolumeClaim: {claimName: c, readOnly: true}},
    {name: host, hostPath: {path: /tmp, type: Directory}},
    {name: down, downwardAPI: {items: [
      {path: l, fieldRef: {fieldPath: metadata.labels}},
      {path: c, mode: 256, resourceFieldRef: {containerName: web, resource: limits.memory}},
    ]}},
    {name: all, projected: {defaultMode: 256, sources: [
      {secret: {name: s, items: [{key: a, path: b}]}},
      {configMap: {name: s, items: [{key: a, path: d}]}},
      {downwardAPI: {items: [{path: e, fieldRef: {fieldPath: metadata.uid}}]}},
      {serviceAccountToken: {path: token, expirationSeconds: 3600, audience: a}},
    ]}},
    {name: nfs, nfs: {server: s.example.com, path: /a, readOnly: true}},
    {name: csi, csi: {driver: a.example.com, volumeAttributes: {a: b}, nodePublishSecretRef: {name: a}}},
    {name: own, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {
      accessModes: [ReadWriteOnce], storageClassName: fast, volumeMode: Filesystem, resources: {requests: {storage: 1Gi}},
    }}}},
  ],
}
""")

TEMPLATE = f"{{metadata: {{labels: {{app: web}}, annotations: {{a.b/c: d}}}}, spec: {POD_SPEC}}}"
SMALL = '{metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "nginx:1.27"}]}}'
ONCE = '{metadata: {labels: {app: web}}, spec: {restartPolicy: Never, containers: [{name: web, image: "nginx:1.27"}]}}'
CLAIM = _one_line("""{
  accessModes: [ReadWriteOnce, ReadOnlyMany], storageClassName: fast, volumeMode: Filesystem,
  resources: {requests: {storage: 1Gi}, limits: {storage: 2Gi}},
  selector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: In, values: [b]}]},
}""")

OBJECTS = f"""
apiVersion: v1
kind: Pod
metadata: {{name: web, labels: {{app: web}}, annotations: {{a.b/c: d}}, finalizers: [example.com/a],
  ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: a, uid: u}}]}}
spec: {POD_SPEC}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 2
  minReadySeconds: 5
  revisionHistoryLimit: 3
  progressDeadlineSeconds: 300
  paused: false
  selector: {{matchLabels: {{app: web}}, matchExpressions: [{{key: app, operator: In, values: [web]}}]}}
  strategy: {{type: RollingUpdate, rollingUpdate: {{maxSurge: 25%, maxUnavailable: 0}}}}
  template: {TEMPLATE}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: db}}
spec:
  serviceName: db
  replicas: 3
  minReadySeconds: 1
  revisionHistoryLimit: 2
  selector: {{matchLabels: {{app: web}}}}
  podManagementPolicy: Parallel
  ordinals: {{start: 1}}
  updateStrategy: {{type: RollingUpdate, rollingUpdate: {{partition: 1}}}}
  persistentVolumeClaimRetentionPolicy: {{whenDeleted: Delete, whenScaled: Retain}}
  template: {SMALL}
  volumeClaimTemplates: [{{metadata: {{name: data, labels: {{a: b}}}}, spec: {CLAIM}}}]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: agent}}
spec:
  minReadySeconds: 1
  revisionHistoryLimit: 2
  selector: {{matchLabels: {{app: web}}}}
  updateStrategy: {{type: RollingUpdate, rollingUpdate: {{maxUnavailable: 10%}}}}
  template: {SMALL}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {{name: web}}
spec: {{replicas: 1, minReadySeconds: 1, selector: {{matchLabels: {{app: web}}}}, template: {SMALL}}}
---
apiVersion: batch/v1
kind: Job
metadata: {{name: once}}
spec:
  parallelism: 2
  completions: 4
  completionMode: Indexed
  backoffLimit: 3
  backoffLimitPerIndex: 1
  maxFailedIndexes: 2
  activeDeadlineSeconds: 60
  ttlSecondsAfterFinished: 60
  suspend: false
  podReplacementPolicy: Failed
  managedBy: example.com/controller
  podFailurePolicy:
    rules:
      - {{action: FailJob, onExitCodes: {{containerName: web, operator: In, values: [1, 42]}}}}
      - {{action: Ignore, onPodConditions: [{{type: DisruptionTarget, status: "True"}}]}}
  successPolicy: {{rules: [{{succeededIndexes: "0,2-3", succeededCount: 1}}]}}
  template: {ONCE}
---
apiVersion: batch/v1
kind: CronJob
metadata: {{name: nightly}}
spec:
  schedule: "*/5 1-3 * jan mon-fri"
  timeZone: Europe/Berlin
  concurrencyPolicy: Forbid
  startingDeadlineSeconds: 30
  successfulJobsHistoryLimit: 2
  failedJobsHistoryLimit: 1
  suspend: true
  jobTemplate: {{metadata: {{labels: {{a: b}}}}, spec: {{backoffLimit: 1, template: {ONCE}}}}}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec:
  type: LoadBalancer
  selector: {{app: web}}
  sessionAffinity: ClientIP
  sessionAffinityConfig: {{clientIP: {{timeoutSeconds: 60}}}}
  externalTrafficPolicy: Local
  internalTrafficPolicy: Cluster
  externalIPs: [192.0.2.7]
  loadBalancerSourceRanges: [10.0.0.0/8]
  loadBalancerClass: example.com/lb
  allocateLoadBalancerNodePorts: true
  ipFamilyPolicy: SingleStack
  ipFamilies: [IPv4]
  trafficDistribution: PreferClose
  publishNotReadyAddresses: true
  ports:
    - {{name: http, port: 80, targetPort: http, protocol: TCP, nodePort: 30123, appProtocol: example.com/http}}
    - {{name: other, port: 81, targetPort: 81}}
---
apiVersion: v1
kind: Service
metadata: {{name: headless}}
spec: {{clusterIP: None, selector: {{app: web}}, ports: [{{port: 80, targetPort: http}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: plain}}
spec: {{type: ClusterIP, ports: [{{port: 80}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: elsewhere}}
spec: {{type: ExternalName, externalName: a.example.com}}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {{name: web}}
spec:
  ingressClassName: nginx
  defaultBackend: {{resource: {{apiGroup: example.com, kind: Bucket, name: b}}}}
  tls: [{{hosts: [a.example.com, "*.example.com"], secretName: tls}}]
  rules:
    - host: a.example.com
      http:
        paths:
          - {{path: /, pathType: Prefix, backend: {{service: {{name: web, port: {{name: http}}}}}}}}
          - {{path: /a, pathType: Exact, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}
    - host: "*.b.example.com"
      http: {{paths: [{{pathType: ImplementationSpecific, backend: {{service: {{name: web, port: {{number: 80}}}}}}}}]}}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {{name: web}}
spec:
  podSelector: {{matchLabels: {{app: web}}}}
  policyTypes: [Ingress, Egress]
  ingress:
    - from:
        - {{podSelector: {{matchLabels: {{a: b}}}}, namespaceSelector: {{matchExpressions: [{{key: a, operator: Exists}}]}}}}
        - {{ipBlock: {{cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}}}
      ports: [{{port: 80, protocol: TCP}}, {{port: 8000, endPort: 9000}}, {{port: http}}]
  egress: [{{to: [{{ipBlock: {{cidr: "2001:db8::/32"}}}}], ports: [{{port: 53, protocol: UDP}}]}}]
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {{name: nginx}}
spec:
  controller: example.com/ingress
  parameters: {{apiGroup: example.com, kind: Parameters, name: p, scope: Namespace, namespace: default}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec: {CLAIM}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: copy}}
spec:
  accessModes: [ReadWriteOncePod]
  resources: {{requests: {{storage: 1Gi}}}}
  dataSource: {{kind: PersistentVolumeClaim, name: data}}
  dataSourceRef: {{kind: PersistentVolumeClaim, name: data}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: disk}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  persistentVolumeReclaimPolicy: Retain
  storageClassName: fast
  volumeMode: Filesystem
  mountOptions: [hard]
  claimRef: {{kind: PersistentVolumeClaim, namespace: default, name: data}}
  local: {{path: /disks/a}}
  nodeAffinity:
    required: {{nodeSelectorTerms: [{{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [a]}}]}}]}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: driven}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteMany]
  csi: {{driver: a.example.com, volumeHandle: h, fsType: ext4, nodeStageSecretRef: {{name: a, namespace: b}}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: fast}}
provisioner: example.com/disks
parameters: {{a: b}}
reclaimPolicy: Delete
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
mountOptions: [hard]
allowedTopologies: [{{matchLabelExpressions: [{{key: zone, values: [a, b]}}]}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: config}}
data: {{a.txt: b, c_d: e}}
binaryData: {{x: YQ==}}
immutable: false
---
apiVersion: v1
kind: Secret
metadata: {{name: tls}}
type: kubernetes.io/tls
data: {{tls.crt: YQ==, tls.key: YQ==}}
---
apiVersion: v1
kind: Secret
metadata: {{name: pull}}
type: kubernetes.io/dockerconfigjson
data: {{.dockerconfigjson: e30=}}
---
apiVersion: v1
kind: Secret
metadata: {{name: login}}
type: kubernetes.io/basic-auth
stringData: {{username: a, password: b}}
immutable: true
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: web}}
automountServiceAccountToken: false
imagePullSecrets: [{{name: pull}}]
secrets: [{{name: token}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: web}}
rules: [{{apiGroups: [""], resources: [pods, pods/log], verbs: [get], resourceNames: [a]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: web}}
rules:
  - {{apiGroups: [apps], resources: [deployments], verbs: ["*"]}}
  - {{nonResourceURLs: [/metrics], verbs: [get]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {{name: all}}
aggregationRule: {{clusterRoleSelectors: [{{matchLabels: {{a: b}}}}]}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: web}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}
subjects:
  - {{kind: ServiceAccount, name: web, namespace: default}}
  - {{kind: User, name: user, apiGroup: rbac.authorization.k8s.io}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: web}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}}
subjects: [{{kind: Group, name: admins, apiGroup: rbac.authorization.k8s.io}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {{name: web}}
spec:
  scaleTargetRef: {{apiVersion: apps/v1, kind: Deployment, name: web}}
  minReplicas: 2
  maxReplicas: 5
  metrics:
    - {{type: Resource, resource: {{name: cpu, target: {{type: Utilization, averageUtilization: 80}}}}}}
    - {{type: Resource, resource: {{name: memory, target: {{type: AverageValue, averageValue: 1Gi}}}}}}
    - type: ContainerResource
      containerResource: {{name: cpu, container: web, target: {{type: Utilization, averageUtilization: 50}}}}
    - {{type: Pods, pods: {{metric: {{name: a, selector: {{matchLabels: {{a: b}}}}}}, target: {{type: AverageValue, averageValue: 5}}}}}}
    - type: Object
      object:
        describedObject: {{apiVersion: v1, kind: Service, name: web}}
        metric: {{name: a}}
        target: {{type: Value, value: 10k}}
    - {{type: External, external: {{metric: {{name: a}}, target: {{type: Value, value: 30}}}}}}
  behavior:
    scaleDown: {{stabilizationWindowSeconds: 60, selectPolicy: Max, policies: [{{type: Pods, value: 1, periodSeconds: 60}}]}}
    scaleUp: {{selectPolicy: Disabled, policies: [{{type: Percent, value: 100, periodSeconds: 15}}]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: web}}
spec: {{minAvailable: 50%, selector: {{matchLabels: {{app: web}}}}, unhealthyPodEvictionPolicy: AlwaysAllow}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: other}}
spec: {{maxUnavailable: 1, selector: {{matchLabels: {{app: web}}}}}}
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: high}}
value: 1000
globalDefault: false
preemptionPolicy: Never
description: important
---
apiVersion: v1
kind: LimitRange
metadata: {{name: limits}}
spec:
  limits:
    - type: Container
      min: {{cpu: 10m, memory: 1Mi}}
      defaultRequest: {{cpu: 100m, memory: 64Mi}}
      default: {{cpu: 200m, memory: 128Mi}}
      max: {{cpu: 1, memory: 1Gi}}
      maxLimitRequestRatio: {{cpu: 4}}
    - {{type: PersistentVolumeClaim, max: {{storage: 10Gi}}}}
    - {{type: Pod, max: {{cpu: 2}}}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {{name: quota}}
spec:
  hard: {{pods: 10, requests.cpu: 4, limits.memory: 8Gi}}
  scopes: [NotTerminating]
  scopeSelector: {{matchExpressions: [{{scopeName: PriorityClass, operator: In, values: [high]}}]}}
---
apiVersion: v1
kind: ResourceQuota
metadata: {{name: counts}}
spec: {{hard: {{count/jobs.batch: 5, services: 3, requests.storage: 1Ti, fast.storageclass.storage.k8s.io/requests.storage: 5Gi}}}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: team, labels: {{a: b}}}}
spec: {{finalizers: [kubernetes]}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {{name: hooks}}
webhooks:
  - name: a.example.com
    clientConfig: {{service: {{name: web, namespace: default, path: /validate, port: 8443}}, caBundle: YQ==}}
    rules: [{{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments], scope: Namespaced}}]
    sideEffects: None
    admissionReviewVersions: [v1]
    failurePolicy: Ignore
    matchPolicy: Equivalent
    timeoutSeconds: 5
    namespaceSelector: {{matchLabels: {{a: b}}}}
    objectSelector: {{matchExpressions: [{{key: a, operator: DoesNotExist}}]}}
    matchConditions: [{{name: a, expression: "true"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {{name: hooks}}
webhooks:
  - name: a.example.com
    clientConfig: {{url: "https://example.com/mutate"}}
    rules: [{{apiGroups: ["*"], apiVersions: ["*"], operations: ["*"], resources: ["*/*"]}}]
    sideEffects: NoneOnDryRun
    admissionReviewVersions: [v1, v1beta1]
    reinvocationPolicy: IfNeeded
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {{name: v1beta1.metrics.example.com}}
spec:
  group: metrics.example.com
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {{name: metrics, namespace: default, port: 443}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: sites.built-in.example.com}}
spec:
  group: built-in.example.com
  scope: Namespaced
  names: {{plural: sites, singular: site, kind: Site, listKind: SiteList, shortNames: [st], categories: [all]}}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {{status: {{}}, scale: {{specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}}}
      additionalPrinterColumns: [{{name: A, type: string, jsonPath: .spec.a}}]
      schema:
        openAPIV3Schema:
          type: object
          properties:
            spec:
              type: object
              required: [a]
              properties:
                a: {{type: string, pattern: "^[a-z]+$", maxLength: 10}}
                replicas: {{type: integer, minimum: 0, default: 1}}
                list: {{type: array, items: {{type: string, enum: [a, b]}}}}
            status: {{type: object, properties: {{replicas: {{type: integer}}}}}}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {{name: leader}}
spec: {{holderIdentity: a, leaseDurationSeconds: 15, leaseTransitions: 1, renewTime: "2026-01-01T00:00:00.000000Z"}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: web-1, labels: {{kubernetes.io/service-name: web}}}}
addressType: IPv4
ports: [{{name: http, port: 80, protocol: TCP, appProtocol: http}}, {{name: b, port: 81}}]
endpoints:
  - {{addresses: [10.1.2.3], hostname: a, nodeName: node, zone: z, conditions: {{ready: true}}, hints: {{forZones: [{{name: z}}]}}}}
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {{name: gvisor}}
handler: runsc
overhead: {{podFixed: {{cpu: 100m, memory: 64Mi}}}}
scheduling: {{nodeSelector: {{a: b}}, tolerations: [{{key: a, operator: Exists, effect: NoSchedule}}]}}
"""
