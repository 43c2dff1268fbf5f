"""The table of the codes of findings: what each means, and what to do.

Promises:
- A published code keeps its meaning. `check --explain CODE` prints its entry of the table.
- A warning is about something that works but may surprise. An error is about something that a cluster refuses, or that
  can't be intended.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct


class Severity(StrEnum):
    """How serious a finding is."""

    ERROR = "error"
    WARNING = "warning"


class Code(Struct, frozen=True, kw_only=True):
    """A kind of finding."""

    severity: Severity
    title: str
    """The problem, as a noun phrase."""
    explanation: str
    """Why it matters, and what to do."""


CODES: Mapping[str, Code] = {
    "template-error": Code(
        severity=Severity.ERROR,
        title="a template that can't be loaded",
        explanation=(
            "Jinja can't compile the file, or a file that it imports is missing. The operator keeps the last good"
            " templates of the folder, and reports the error in the status of every parent. Correct the line that"
            " the message names."
        ),
    ),
    "unknown-name": Code(
        severity=Severity.ERROR,
        title="a filter, test, function or variable that doesn't exist",
        explanation=(
            "Templates have the filters and tests of Jinja, and the variables, functions and filters of "
            "docs/templates.md. Names of Helm, Sprig and Ansible lead to the one that does the same. check --fix "
            "renames those that mean the same under another name."
        ),
    ),
    "go-template": Code(
        severity=Severity.ERROR,
        title="the syntax of a Go template",
        explanation=(
            "The file is written as a template of Helm, and the templates of ssa-operator are Jinja's. A value is "
            "data: it keeps its type and can't become YAML syntax, so quote, toYaml and nindent are seldom needed."
        ),
    ),
    "render-error": Code(
        severity=Severity.ERROR,
        title="an example that can't be rendered",
        explanation=(
            "For this example, or for a variant of it that the CRD allows, the template fails. The operator reports "
            "the same error as RenderFailed in the status of such a parent, and applies the other documents."
        ),
    ),
    "unrestricted-field": Code(
        severity=Severity.WARNING,
        title="a field of the parent that permits what a template can't use",
        explanation=(
            "A parent may have any number in this field, and a large one is too much for a render, for example in a "
            "loop over range(). Or it may have any text, and templates use it as the name of an object, which has "
            "lower case letters, digits and -. Declare a maximum or a pattern in the _schema.yaml or in the CRD: the "
            "API server refuses other parents, in place of an error in their status. Or convert a text with k8s_name."
        ),
    ),
    "invalid-example": Code(
        severity=Severity.ERROR,
        title="an example that the API server refuses",
        explanation=(
            "The example breaks the schema of its CRD or one of its validation rules (CEL): the message has the API "
            "server's words. Or its file is no YAML, or no object. The example is not rendered. Correct the example, "
            "or the CRD."
        ),
    ),
    "invalid-manifest": Code(
        severity=Severity.ERROR,
        title="a manifest that the operator refuses",
        explanation=(
            "The manifest breaks a rule of the operator: an object is rendered twice, or lies outside of the "
            "namespace of its parent without clusterScope, or has an owner that Kubernetes doesn't allow. The "
            "status of such a parent reports InvalidManifest."
        ),
    ),
    "endless-parents": Code(
        severity=Severity.ERROR,
        title="parents that create parents without an end",
        explanation=(
            "The templates render a parent, of their own kind or of another one with a folder, whose templates render "
            "the next parent, and so on. The operator creates as many levels as maxDepth in _settings.yaml allows, 8 "
            "by default, and reports InvalidManifest. End the recursion, for example with a level in the spec that "
            "each parent counts down, or set maxDepth where that many levels are meant."
        ),
    ),
    "undeclared-field": Code(
        severity=Severity.ERROR,
        title="a field of the parent that its CRD doesn't declare",
        explanation=(
            "The API server prunes fields that the CRD doesn't declare, so no parent ever has this one, and a "
            "template that reads it fails or takes its default. Correct the name, or declare the field in the CRD."
        ),
    ),
    "unknown-kind": Code(
        severity=Severity.ERROR,
        title="a kind that Kubernetes doesn't have",
        explanation=(
            "The targeted version of Kubernetes serves no such kind, or removed this apiVersion of it. The operator "
            "reports it in the status of the parent, and applies the other manifests. Kinds of other groups are known "
            "by their CRDs in crds/. With --kubernetes cluster the kinds are those of the cluster."
        ),
    ),
    "unknown-field": Code(
        severity=Severity.ERROR,
        title="a field that the kind doesn't have",
        explanation=(
            "The operator applies with strict validation, and the API server refuses the whole manifest. Correct the "
            "name or the indentation. check --fix corrects a name that differs in upper and lower case only."
        ),
    ),
    "unknown-child": Code(
        severity=Severity.WARNING,
        title="a child in the status that no template renders",
        explanation=(
            "_status.yaml.j2 reads a child of a name that no template of the folder renders for the examples. Its "
            "fields are never known, so the operator leaves them out of the status. Write the name as the manifest "
            "does. In a manifest, the same is a render-error."
        ),
    ),
    "invalid-value": Code(
        severity=Severity.ERROR,
        title="a value of a wrong type, or one that isn't allowed",
        explanation=(
            "The schema of the kind wants another type, or lists the values of the field, and the API server refuses "
            "the manifest. A value in quotes is a string: write `key: {{ value }}` to keep its type."
        ),
    ),
    "invalid-name": Code(
        severity=Severity.ERROR,
        title="a name, a label or an annotation that the API server refuses",
        explanation=(
            "Names of objects are lower case letters, digits, - and, for most kinds, dots. The name of a Namespace, a "
            "Service, a container or a port, and the value of a label, has at most 63 characters. Convert a value of "
            "the parent with a filter: {{ spec.title | lower | replace(' ', '-') }}, or restrict the field by a "
            "pattern in the CRD."
        ),
    ),
    "invalid-quantity": Code(
        severity=Severity.ERROR,
        title="a quantity that the API server refuses",
        explanation=(
            "A quantity is a number with k, M, G for thousands, or Ki, Mi, Gi for 1024s, and m for thousandths: 500m, "
            "2, 16Mi. The API server refuses 16MB and 16 Mi."
        ),
    ),
    "missing-field": Code(
        severity=Severity.ERROR,
        title="a required field that is missing",
        explanation="The kind requires the field, and the API server refuses the manifest without it.",
    ),
    "duplicate-item": Code(
        severity=Severity.ERROR,
        title="two items of a list with the same key",
        explanation=(
            "The list is a map by a key such as the name of a container. The API server refuses a server-side apply "
            "with two items of one key."
        ),
    ),
    "deprecated": Code(
        severity=Severity.WARNING,
        title="a deprecated kind or field",
        explanation=(
            "The API description of Kubernetes, or the CRD, calls the kind or field deprecated. It works, and a later "
            "version may remove it."
        ),
    ),
    "lookup-by-parent": Code(
        severity=Severity.WARNING,
        title="a lookup whose name the parent decides",
        explanation=(
            "The kind, name or namespace in a lookup comes from spec, labels or annotations. The operator reads the "
            "object with its own permissions, so anyone who can edit a parent can have it read another object, a "
            "Secret too. Where that is meant, make sure that nothing of a Secret reaches an object that these users "
            "may read."
        ),
    ),
    "secret-comparison": Code(
        severity=Severity.WARNING,
        title="a Secret's content that is compared with a value of the parent",
        explanation=(
            "What is rendered shows whether they are equal, so anyone who can edit a parent and read its status or its "
            "children can guess the content. Compare in the workload, which reads the Secret itself, or compare the "
            "content with an object that the parent's author can't change."
        ),
    ),
    "manifest-by-parent": Code(
        severity=Severity.WARNING,
        title="a manifest whose kind or namespace the parent decides",
        explanation=(
            "The kind, the apiVersion or the whole manifest comes from spec, labels or annotations, or, where the "
            "operator applies manifests in other namespaces, the namespace. Anyone who can edit a parent then has the "
            "operator write whatever its permissions allow. Write the field into the template, choose it by a "
            "condition, or run with --impersonate."
        ),
    ),
    "not-deterministic": Code(
        severity=Severity.ERROR,
        title="a template whose result varies",
        explanation=(
            "Two renders of the same parent differ. Every resync would be a change, so the operator refuses the "
            "document. Remove the expression whose result varies, or draw a value with generated()."
        ),
    ),
    "dropped-status-field": Code(
        severity=Severity.WARNING,
        title="a field of _status.yaml.j2 that is not written",
        explanation=(
            "The operator drops the field or condition, and logs it: its name is the operator's own, a condition "
            "breaks a rule of Kubernetes, or the schema of the CRD doesn't declare the field, so that the API server "
            "would refuse the whole status."
        ),
    ),
    "dependency-cycle": Code(
        severity=Severity.ERROR,
        title="manifests that wait for each other",
        explanation=(
            "Each manifest of the cycle reads a field of the next one, or names it in ssa-operator.dev/after, so none "
            "of them is ever applied. Read a field with default, or take the value from spec."
        ),
    ),
    "never-deleted": Code(
        severity=Severity.WARNING,
        title="a manifest of what its parent lives in",
        explanation=(
            "The manifest is the namespace that its parent lives in, or the CRD of the parent's kind. With it, "
            "everything else in the namespace or of the kind would be deleted, and the deletion would wait for the "
            "parent without an end. So the operator never deletes the object, neither with the parent nor when no "
            'template renders it any more. Set the annotation ssa-operator.dev/prune: "false" to say so, or render '
            "the object elsewhere."
        ),
    ),
    "no-folder": Code(
        severity=Severity.WARNING,
        title="no folder of a resource",
        explanation=(
            "The templates folder has no folder that is named <plural>.<group>, so nothing is checked, and the "
            "operator reconciles nothing. Name the folder that contains it: check --templates FOLDER."
        ),
    ),
    "folder-without-example": Code(
        severity=Severity.WARNING,
        title="a template folder without an example",
        explanation=(
            "Only the syntax of the folder is checked, because there is no object to render it for. Add one to "
            "examples/, or name its file: check --examples FILE."
        ),
    ),
    "latest-image": Code(
        severity=Severity.WARNING,
        title="an image without a fixed version",
        explanation=(
            "The image has the tag latest, or no tag. With imagePullPolicy IfNotPresent different nodes run "
            "different builds, and with Always a restarted pod may run another one than its neighbours. Name a "
            "version, or a digest."
        ),
    ),
    "broken-reference": Code(
        severity=Severity.ERROR,
        title="a reference within a manifest that leads nowhere",
        explanation=(
            "A selector doesn't match the labels of its pod template, a mount names no volume of its pod and no "
            "volumeClaimTemplate, or a probe or a hook names a port that its container doesn't declare. The API "
            "server refuses the first two, and the probe fails. Write the name as the manifest does."
        ),
    ),
    "repeated-job": Code(
        severity=Severity.WARNING,
        title="a Job with a TTL that the operator runs again and again",
        explanation=(
            "Kubernetes deletes a Job with ttlSecondsAfterFinished when it has finished. The operator then finds that "
            "a child is missing, and creates it again. A Job that runs once for each parent has the annotation "
            "ssa-operator.dev/apply: Once."
        ),
    ),
    "plain-password": Code(
        severity=Severity.WARNING,
        title="a password in the text of a template",
        explanation=(
            "Anyone who can read the templates, or their repository, reads it, and each parent has the same one. Draw "
            "a password with generated(), or read a Secret that is created elsewhere."
        ),
    ),
    "ambiguous-scalar": Code(
        severity=Severity.WARNING,
        title="a plain scalar that kubectl reads otherwise",
        explanation=(
            "Templates are YAML 1.2, in which yes, on, 0644, 0b101 and 1_000 are texts. kubectl and Helm read YAML "
            "1.1, in which they are booleans and numbers; so does the operator in static manifests, CRDs and parents. "
            "Write the value itself, or quote the text."
        ),
    ),
    "ignored-file": Code(
        severity=Severity.WARNING,
        title="a file that the operator doesn't use",
        explanation=(
            "In a template folder, the operator renders the files that end in .yaml.j2, .yml.j2 and .json.j2, applies "
            "those that end in .yaml, .yml and .json, and reads those that another file includes. Rename the file, or "
            "move it to files/ if templates read it as text. A conversion in _convert/ is used between the stored "
            "version and another one with other fields. Remove the file, or correct the versions in its name."
        ),
    ),
    "plain-file": Code(
        severity=Severity.ERROR,
        title="an expression in a file that is not rendered",
        explanation=(
            "A file that ends in .yaml or .yml is a manifest as it stands, so that braces of other programs stay. "
            "Rename it to .yaml.j2 to have Jinja render it."
        ),
    ),
    "unknown-resource": Code(
        severity=Severity.ERROR,
        title="a template folder of a resource that no CRD defines",
        explanation=(
            "A template folder is called <plural>.<group>, as the CRD is. The operator waits for a CRD of the folder's "
            "name, and never renders it."
        ),
    ),
    "unknown-reference": Code(
        severity=Severity.WARNING,
        title="a name, a key, a port or a label that no manifest of the render has",
        explanation=(
            "A manifest names an object that the same templates should render (the target of an autoscaler, a Service "
            "of an Ingress, a ConfigMap whose name is nearly that of a rendered one), a key or a port that the "
            "rendered one doesn't have, or a Service selects no pod of its folder. The API server accepts it; pods "
            "don't start, or nothing is scaled or reached. The pods of a Service with clusterIP: None are reached all "
            "the same, without the port. An object that is created elsewhere can be among the examples."
        ),
    ),
    "status-never-written": Code(
        severity=Severity.WARNING,
        title="a manifest of a kind whose status nothing writes",
        explanation=(
            "The CRD of the kind declares status.conditions, so its object counts as ready once its controller has "
            "written its status. The controller of this kind writes none by default (Istio's kinds), so the parent "
            "stays Progressing, and what depends on the object waits. Set the annotation "
            'ssa-operator.dev/wait: "false" if the parent need not wait for the object, or ssa-operator.dev/ready-when '
            "with an expression that says when it is ready, such as metadata.uid is defined: once it exists."
        ),
    ),
    "aggregated-rules": Code(
        severity=Severity.WARNING,
        title="rules of a ClusterRole that the control plane fills",
        explanation=(
            "The ClusterRole has aggregationRule, and a controller of Kubernetes replaces its rules by those of the "
            "roles that this selects. The operator applies the manifest's rules again, and so on for ever, with a "
            "Conflict in the status. Remove rules, and write them into another ClusterRole with a label that "
            "aggregationRule selects. An empty list of rules is left out."
        ),
    ),
    "autoscaled-replicas": Code(
        severity=Severity.WARNING,
        title="replicas of an object that an autoscaler of the same folder scales",
        explanation=(
            "The manifest sets the number of replicas, and another manifest is an autoscaler whose "
            "spec.scaleTargetRef names the object (HorizontalPodAutoscaler, ScaledObject). The operator reverts what "
            "the autoscaler sets. Leave the field out when the autoscaler is rendered, or keep the number that is "
            'there: replicas: {{ live("Deployment", name).spec.replicas | default(2) }}'
        ),
    ),
    "server-field": Code(
        severity=Severity.WARNING,
        title="a field that the API server or a controller writes",
        explanation=(
            "The manifest has a field that Kubernetes fills in each object, as what kubectl get prints. The operator "
            "drops status and the server's fields of metadata, and writes its own value of the label "
            "app.kubernetes.io/managed-by. Any other one is of one object only, or a controller writes it again (a CA "
            "bundle that an annotation has cert-manager or OpenShift write), and the operator reverts that with each "
            "resync. Remove the field."
        ),
    ),
    "repeated-change": Code(
        severity=Severity.WARNING,
        title="an empty list or mapping because of which each apply is a change",
        explanation=(
            "The API server drops the empty value, and compares the object that it stored with the manifest: each "
            "apply raises metadata.generation, and every watcher of the kind gets an event. The operator notices "
            "that and doesn't repeat the apply while the object stays as it is. Leave the field out: that means the "
            "same, and costs no write after a restart of the operator."
        ),
    ),
    "crd-refused": Code(
        severity=Severity.ERROR,
        title="a CRD that can't be read, or that the API server refuses with all its objects",
        explanation=(
            "It is no YAML or no CRD, its name is not <plural>.<group>, a type doesn't exist, a field of a served "
            "version has no type, a default doesn't fit its own field, or the like. The message has the API server's "
            "words. Or the CRD requires a field that it doesn't declare: the API server prunes the field, and refuses "
            "every object. Until the CRD is corrected, check does not look at its objects."
        ),
    ),
    "crd-without-report": Code(
        severity=Severity.WARNING,
        title="a CRD whose objects can't show the operator's report",
        explanation=(
            "The CRD has no status subresource, or doesn't declare status.conditions or status.resources. The "
            "operator works, but a user sees errors only as Events. Declare them as ssa-operator new does, the "
            "conditions with x-kubernetes-list-type: map and the key type: else the writers of two conditions replace "
            "each other's whole list. With the setting rollout, the revision of each parent needs status.revision, "
            "too; shards can't roll out without it."
        ),
    ),
    "crd-without-printer-columns": Code(
        severity=Severity.WARNING,
        title="a CRD without printer columns",
        explanation=(
            "kubectl get shows only name and age. Add additionalPrinterColumns, at least for the status of the "
            'condition Ready: .status.conditions[?(@.type=="Ready")].status'
        ),
    ),
    "crd-atomic-replicas": Code(
        severity=Severity.WARNING,
        title="a number of replicas that no autoscaler can own",
        explanation=(
            "The subresource scale writes a field inside of a mapping with x-kubernetes-map-type: atomic. Such a "
            "mapping has one owner: an apply of a template that writes the mapping replaces the whole of it, and "
            "with it the number that an autoscaler or kubectl scale has set. Remove the setting from the CRD. If it "
            "belongs to others, keep the number that is there in the template, for example "
            'count: {{ live("Fleet", name).spec.workers.count | default(2) }}'
        ),
    ),
    "conversion-failed": Code(
        severity=Severity.ERROR,
        title="a conversion that fails",
        explanation=(
            "A template in _convert/ fails for a generated object or an example, or gives an object that the schema of "
            "the other version refuses. The API server then refuses each request that needs the conversion. Correct "
            "the line: a field that is not required may be missing, so test it with `is defined`, or use `default`."
        ),
    ),
    "lossy-conversion": Code(
        severity=Severity.WARNING,
        title="a field that a conversion there and back loses",
        explanation=(
            "The field has a place in both versions, but the templates in _convert/ don't give its value back, or give "
            "another one. The "
            "annotation ssa-operator.dev/unconverted keeps the value, but users of the other version don't see it, and "
            "what they write there has no effect on it. Write the field in both templates. If you mean it, accept the "
            "warning with a comment in the first line of the file: {# check: lossy-conversion, REASON #}."
        ),
    ),
    "crd-removed": Code(
        severity=Severity.ERROR,
        title="a part of a CRD that is gone",
        explanation=(
            "With the CRD, or under another scope or kind, its objects are gone. Without a version that is served or "
            "stored, clients fail and stored objects may be unreadable: remove it only when status.storedVersions of "
            "the CRD in the cluster lacks it. The API server prunes a field that is gone with the next write: keep "
            "it, and call it deprecated in its description. Without the status subresource, the operator's writes of "
            "the status fail. check --against compares with an earlier state."
        ),
    ),
    "crd-narrowed": Code(
        severity=Severity.ERROR,
        title="a field that permits less",
        explanation=(
            "Values that were valid are refused: the type is another one, or the field is required, or an enum, a "
            "bound, a pattern or nullable was narrowed. Keep what was valid, give a required field a default, or add "
            "a field or a version. Where x-kubernetes-list-type, its keys or x-kubernetes-map-type change, applies of "
            "several managers replace or duplicate each other's items."
        ),
    ),
    "crd-changed": Code(
        severity=Severity.WARNING,
        title="another default, or a new rule of validation",
        explanation=(
            "Objects that leave the field out mean something else from the next write on, and stored objects keep the "
            "old value: say so in the release notes. Stored objects that break a new rule can't be written any more, "
            "except where only other fields change: look at them first."
        ),
    ),
}
"""Every code of a finding, in the order in which `check --explain` lists them."""

REPLACED: Mapping[str, str] = {
    old: code
    for code, replaced in {
        "broken-reference": "selector-mismatch unknown-volume unknown-port",
        "unknown-reference": "selects-nothing unknown-target-port headless-port",
        "unrestricted-field": "unlimited-number unrestricted-name",
        "ignored-file": "conversion-unused",
        "server-field": "injected-ca-bundle",
        "crd-refused": "crd-undeclared-required crd-not-structural",
        "crd-without-report": "crd-condition-list-type",
        "crd-removed": "crd-names-changed crd-version-removed crd-field-removed crd-status-removed",
        "crd-narrowed": "crd-type-changed crd-field-required crd-list-type-changed",
        "crd-changed": "crd-default-changed crd-rule-added",
    }.items()
    for old in replaced.split()
}
"""The code that has the meaning of an earlier one."""
