{{- define "ssa-operator.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "ssa-operator.account" -}}
{{- default (ternary (include "ssa-operator.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end }}

{{- define "ssa-operator.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
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
{{ $folder | quote }}: {{ $name | quote }}
{{- end }}
{{- end }}

{{- /* A role and its binding to the account: the chart as `root`, then `name`, `rules`, and the `namespace`, without which the role is cluster-wide */ -}}
{{- define "ssa-operator.role" -}}
{{- $kind := ternary "Role" "ClusterRole" (hasKey . "namespace") }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata: {{ include "ssa-operator.role-metadata" . }}
rules:
  {{- toYaml .rules | nindent 2 }}
{{- include "ssa-operator.binding" (merge (dict "kind" $kind "role" .name) .) }}
{{- end }}

{{- /* The binding of a role to the account: as above, with the `kind` and the name of the `role` in place of rules */ -}}
{{- define "ssa-operator.binding" -}}
{{- $subject := dict "kind" "ServiceAccount" "name" (include "ssa-operator.account" .root) "namespace" .root.Release.Namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ ternary "RoleBinding" "ClusterRoleBinding" (hasKey . "namespace") }}
metadata: {{ include "ssa-operator.role-metadata" . }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .role | quote }}
subjects: {{ list $subject | toJson }}
{{- end }}

{{- define "ssa-operator.role-metadata" -}}
{{- $metadata := dict "name" .name "labels" (include "ssa-operator.labels" .root | fromYaml) }}
{{- with .namespace }}
{{- $_ := set $metadata "namespace" . }}
{{- end }}
{{- toJson $metadata }}
{{- end }}
