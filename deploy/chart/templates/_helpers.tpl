{{- define "ssa-operator.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "ssa-operator.account" -}}
{{- default (ternary (include "ssa-operator.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end }}

{{- define "ssa-operator.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ssa-operator.labels" -}}
{{ include "ssa-operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* The folder of templates, then the name of its ConfigMap */ -}}
{{- define "ssa-operator.folders" -}}
{{- range $folder, $files := .Values.templates }}
{{ $folder | quote }}: {{ include "ssa-operator.fullname" $ }}-{{ $folder | lower | replace "_" "-" | trimPrefix "-" }}
{{- end }}
{{- range $folder, $name := .Values.templateConfigMaps }}
{{ $folder | quote }}: {{ $name }}
{{- end }}
{{- end }}

{{- /* A role and its binding to the account: the chart as `root`, then `name`, `rules`, and the `namespace`, without which the role is cluster-wide */ -}}
{{- define "ssa-operator.role" -}}
{{- $kind := ternary "Role" "ClusterRole" (hasKey . "namespace") }}
{{- $metadata := dict "name" .name "labels" (include "ssa-operator.labels" .root | fromYaml) }}
{{- with .namespace }}
{{- $_ := set $metadata "namespace" . }}
{{- end }}
{{- $subject := dict "kind" "ServiceAccount" "name" (include "ssa-operator.account" .root) "namespace" .root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata: {{ toJson $metadata }}
rules:
  {{- toYaml .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata: {{ toJson $metadata }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects: {{ list $subject | toJson }}
{{- end }}
