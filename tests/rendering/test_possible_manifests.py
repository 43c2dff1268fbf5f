"""What a folder can render and look up, found from the text of its templates."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.objects.template_contents import PARENT_NAMESPACE, RoleReference, TemplateContents
from ssa_operator.rendering.folder.loaded_folders import load
from ssa_operator.rendering.possible_manifests import template_contents
from tests.packaging.checkout import ROOT

FOLDER = "things.a.example.com"


def contents(tmp_path: Path, *texts: str, **files: str) -> TemplateContents:
    """The contents of a folder: `a.yaml.j2`, `b.yaml.j2`; a file of another name is written with __ for a dot."""
    folder = tmp_path / FOLDER
    folder.mkdir(parents=True)
    for name, text in zip("abc", texts, strict=False):
        (folder / f"{name}.yaml.j2").write_text(text)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    sources = load(tmp_path)
    (found,) = sources.folders.values()
    assert (sources.problems, found.problems) == ((), ())
    options: dict[tuple[str, ...], frozenset[str]] = {("spec", "workload"): frozenset({"DaemonSet", "Deployment"})}
    return template_contents(found, options.get)


def manifest(api_version: str, kind: str, rest: str = "") -> str:
    return f"apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: x\n{rest}"


def kinds(found: TemplateContents) -> list[str]:
    return sorted({str(each.group_kind) for each in found.manifests})


def unknown(found: TemplateContents) -> list[str]:
    return [str(each).removeprefix(f"{FOLDER}/") for each in found.unknown]


MAP, JOB, WEB = manifest("v1", "ConfigMap"), manifest("batch/v1", "Job"), manifest("apps/v1", "Deployment")

CONSTANTS = "{% set kinds = {'a': 'Secret', 'b': 'Service'} %}"
ANY_KIND = "apiVersion: v1\nkind: {{ kind }}\nmetadata: {name: x}\n"

# The template, and the kinds that it can render.
KINDS: dict[str, tuple[str, list[str]]] = {
    "plain text": (MAP, ["ConfigMap"]),
    "several documents": (f"{MAP}---\n{JOB}", ["ConfigMap", "Job.batch"]),
    "JSON": (
        '{\n  "apiVersion": "batch/v1",\n  "kind": "Job",\n  "metadata": {\n    "name": "{{ name }}"\n  }\n}\n',
        ["Job.batch"],
    ),
    "every arm of a condition": (
        f"{{% if spec.a %}}\n{MAP}{{% elif spec.b %}}\n{JOB}{{% else %}}\n{WEB}{{% endif %}}",
        ["ConfigMap", "Deployment.apps", "Job.batch"],
    ),
    "a kind that a macro returns": (
        (
            "{% macro kind() %}{% if spec.a %}{% return 'Job' %}{% endif %}{% return 'CronJob' %}{% endmacro %}"
            "apiVersion: batch/v1\nkind: {{ kind() }}\nmetadata:\n  name: x\n"
        ),
        ["CronJob.batch", "Job.batch"],
    ),
    "arms that give only the kind": (
        (
            "{% if spec.a %}\napiVersion: v1\nkind: ConfigMap\n{% else %}\napiVersion: batch/v1\nkind: Job\n"
            "{% endif %}\nmetadata:\n  name: x\n"
        ),
        ["ConfigMap", "Job.batch"],
    ),
    "a manifest with an override": (
        f"{{% filter from_yaml | merge(spec.override) %}}\n{WEB}{{% endfilter %}}\n",
        ["Deployment.apps"],
    ),
    "a part of a manifest with an override": (
        f"{{% set part %}}\nkind: X\n{{% endset %}}\n{MAP}data: {{{{ part | from_yaml | merge(spec.override) }}}}\n",
        ["ConfigMap"],
    ),
    "a condition within a line": (
        "apiVersion: apps/v1\nkind: {% if spec.a %}Deployment{% else %}StatefulSet{% endif %}\nmetadata: {name: x}\n",
        ["Deployment.apps", "StatefulSet.apps"],
    ),
    "documents that only one arm adds": (
        f"{MAP}{{% if spec.a %}}\n---\n{JOB}{{% endif %}}\n",
        ["ConfigMap", "Job.batch"],
    ),
    "a conditional expression": (
        "apiVersion: apps/v1\nkind: {{ 'Deployment' if spec.a else 'DaemonSet' }}\nmetadata: {name: x}\n",
        ["DaemonSet.apps", "Deployment.apps"],
    ),
    "a loop over constants": (
        (
            "{% for kind in ['Role', 'ClusterRole'] %}\n---\napiVersion: rbac.authorization.k8s.io/v1\n"
            "kind: {{ kind }}\nmetadata: {name: x}\n{% endfor %}\n"
        ),
        ["ClusterRole.rbac.authorization.k8s.io", "Role.rbac.authorization.k8s.io"],
    ),
    "a loop over constant pairs, which stay pairs": (
        (
            "{% for version, kind in [('apps/v1', 'Deployment'), ('v1', 'Pod')] %}\n---\napiVersion: {{ version }}\n"
            "kind: {{ kind }}\nmetadata: {name: x}\n{% endfor %}\n"
        ),
        ["Deployment.apps", "Pod"],
    ),
    "a loop over values": (f"{{% for x in spec.xs %}}\n---\n{MAP}{{% endfor %}}\n", ["ConfigMap"]),
    "a macro with the kind as argument": (
        (
            "{% macro workload(kind, version='v1') %}\napiVersion: apps/{{ version }}\nkind: {{ kind }}\n"
            "metadata: {name: x}\n"
            "{% endmacro %}\n{{ workload('Deployment') }}\n---\n{{ workload(kind='DaemonSet') }}\n"
        ),
        ["DaemonSet.apps", "Deployment.apps"],
    ),
    "a variable": (
        "{% set kind = 'Con' ~ 'figMap' %}\napiVersion: v1\nkind: {{ kind }}\nmetadata: {name: x}\n",
        ["ConfigMap"],
    ),
    "a variable that a condition sets": (
        (
            "{% set kind = 'Secret' %}\n{% if spec.a %}\n{% set kind = 'ConfigMap' %}\n{% endif %}\n"
            "apiVersion: v1\nkind: {{ kind }}\nmetadata: {name: x}\n"
        ),
        ["ConfigMap", "Secret"],
    ),
    "a block assignment": (f"{{% set text %}}\n{MAP}{{% endset %}}\n{{{{ text }}}}\n", ["ConfigMap"]),
    "a call block": (
        (
            f"{{% macro both() %}}\n{MAP}---\n{{{{ caller() }}}}\n{{% endmacro %}}\n"
            f"{{% call both() %}}\n{JOB}{{% endcall %}}\n"
        ),
        ["ConfigMap", "Job.batch"],
    ),
    "a mapping that is printed": (
        "{{ {'apiVersion': 'v1', 'kind': 'Secret', 'metadata': {'name': name}} | to_yaml }}\n",
        ["Secret"],
    ),
    "the items of a List": (
        (
            "apiVersion: v1\nkind: List\nitems:\n"
            "- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n"
            "- {% if spec.a %}\n  apiVersion: batch/v1\n  kind: Job\n  metadata: {name: b}\n{% endif %}\n"
        ),
        ["ConfigMap", "Job.batch"],
    ),
    **{
        f"constants in {expression}": (
            f"{CONSTANTS}{{% for {expression} %}}\n{ANY_KIND}---\n{{% endfor %}}\n",
            ["Secret", "Service"],
        )
        for expression in (
            "_, kind in kinds.items()",
            "kind in kinds.values()",
            "_, kind in kinds | dictsort",
            "kind in 'Secret Service'.split()",
            "kind in 'Secret,Service'.split(',')",
            "kind in ['Secret', 'Ser-vice' | replace('-', '')]",
        )
    },
    "a filter of an include in one line": (
        f"{{% filter indent(0) %}}{{% include '_more.j2' %}}{{% endfilter %}}\n---\n{MAP}",
        ["ConfigMap", "Job.batch"],
    ),
    "the values that the CRD allows": (
        "apiVersion: apps/v1\nkind: {{ spec.workload }}\nmetadata: {name: x}\n",
        ["DaemonSet.apps", "Deployment.apps"],
    ),
    "quotes and comments": ('apiVersion: \'v1\' # core\n"kind": "Pod" # one\nmetadata: {name: x}\n', ["Pod"]),
    "a kind in a block scalar is text": (
        manifest("v1", "ConfigMap", "data:\n  a: |\n    kind: Secret\n    apiVersion: v1\n"),
        ["ConfigMap"],
    ),
    "a comment renders nothing": (f"{{# {JOB} #}}\n{MAP}", ["ConfigMap"]),
    "a macro that nothing calls renders nothing": (
        f"{{% macro unused() %}}\n{JOB}{{% endmacro %}}\n{MAP}",
        ["ConfigMap"],
    ),
}


@pytest.mark.parametrize("case", KINDS)
def test_every_kind_that_a_template_can_render_is_found(case: str, tmp_path: Path) -> None:
    text, expected = KINDS[case]
    found = contents(tmp_path, text, _more__j2=JOB)
    assert kinds(found) == expected
    assert unknown(found) == []


def test_kinds_of_imported_and_included_files_have_the_line_that_writes_them(tmp_path: Path) -> None:
    found = contents(
        tmp_path,
        '{% import "_lib.yaml.j2" as lib %}\n{{ lib.job() | indent(0) }}\n---\n{% include "_map.yaml.j2" %}\n',
        '{% from "_lib.yaml.j2" import job as make %}\n{{ make() }}\n',
        _lib__yaml__j2=f"{{% macro job() %}}\n{JOB}{{% endmacro %}}\n",
        _map__yaml__j2=MAP,
    )
    assert {(str(each.group_kind), str(each.location).removeprefix(f"{FOLDER}/")) for each in found.manifests} == {
        ("Job.batch", "_lib.yaml.j2:3"),
        ("ConfigMap", "_map.yaml.j2:2"),
    }
    assert unknown(found) == []


def test_blocks_of_an_extended_template_are_found(tmp_path: Path) -> None:
    found = contents(
        tmp_path,
        '{% extends "_base.yaml.j2" %}\n{% block more %}\n---\n' + JOB + "{{ super() }}\n{% endblock %}\n",
        _base__yaml__j2=f"{MAP}{{% block more %}}\n---\n{WEB}{{% endblock %}}\n",
    )
    assert kinds(found) == ["ConfigMap", "Deployment.apps", "Job.batch"]


def test_a_static_file_counts(tmp_path: Path) -> None:
    assert kinds(contents(tmp_path, MAP, static__yaml=JOB)) == ["ConfigMap", "Job.batch"]


# The template, and what is reported.
UNKNOWN = {
    "apiVersion: v1\nkind: {{ spec.kind }}\nmetadata: {name: x}\n": ["a.yaml.j2:2: this kind is computed"],
    "apiVersion: {{ spec.version }}\nkind: Pod\nmetadata: {name: x}\n": ["a.yaml.j2:1: this apiVersion is computed"],
    "{{ spec.manifest | to_yaml }}\n": ["a.yaml.j2:1: this document has no kind in its text"],
    "{% include spec.file %}\n": ["a.yaml.j2:1: the name of the imported or included file is computed"],
    "apiVersion: v1\nkind: List\nitems: {{ spec.items }}\n": ["a.yaml.j2:3: the items of this List are computed"],
    MAP + "data: {{ lookup('v1', spec.kind, name).data }}\n": ["a.yaml.j2:5: the kind of this lookup is computed"],
    MAP + "data: {{ lookup('v1', *spec.more).data }}\n": ["a.yaml.j2:5: the kind of this lookup is computed"],
}


def test_a_file_that_grows_too_large_is_reported_and_the_others_count(tmp_path: Path) -> None:
    macros = "".join(
        f"{{% macro m{number}() %}}" + f"{{{{ m{number + 1}() }}}}" * 10 + "{% endmacro %}\n" for number in range(7)
    )
    found = contents(tmp_path, f"{macros}{{% macro m7() %}}x{{% endmacro %}}\n{JOB}spec: {{{{ m0() }}}}\n", MAP)
    assert kinds(found) == ["ConfigMap"]
    assert unknown(found) == ["a.yaml.j2:1: the text with all macros, loops and includes written out is too large"]


def test_a_macro_that_calls_itself_is_expanded(tmp_path: Path) -> None:
    macro = f"{{% macro tree(n) %}}\n---\n{JOB}{{{{ tree(n - 1) }}}}{{{{ tree(n - 2) }}}}\n{{% endmacro %}}\n"
    found = contents(tmp_path, f"{macro}{MAP}{{{{ tree(3) }}}}\n")
    assert kinds(found) == ["ConfigMap", "Job.batch"]
    assert unknown(found) == []


@pytest.mark.parametrize("text", UNKNOWN)
def test_what_only_a_render_knows_is_reported_with_its_line(text: str, tmp_path: Path) -> None:
    assert unknown(contents(tmp_path, text)) == UNKNOWN[text]


def test_a_kind_with_a_default_is_known_and_reported(tmp_path: Path) -> None:
    found = contents(
        tmp_path, "apiVersion: apps/v1\nkind: {{ spec.kind | default('Deployment') }}\nmetadata: {name: x}\n"
    )
    assert kinds(found) == ["Deployment.apps"]
    assert unknown(found) == ["a.yaml.j2:2: this kind is computed"]


# The metadata of a manifest, and its namespace.
NAMESPACES: dict[str, str | None] = {
    "metadata:\n  name: x\n": PARENT_NAMESPACE,
    "metadata:\n  name: x\n  namespace: {{ namespace }}\n": PARENT_NAMESPACE,
    "metadata:\n  name: x\n  namespace: shared\n": "shared",
    "metadata: {name: x, namespace: shared}\n": "shared",
    "metadata:\n  name: x\n  namespace: {{ spec.where }}\n": None,
    "metadata:\n  name: x\n{% if spec.a %}\n  namespace: shared\n{% endif %}\n": "shared",
    "metadata:\n  {{ meta() | indent(2) }}\n": "shared",
}


@pytest.mark.parametrize("metadata", NAMESPACES)
def test_the_namespace_of_a_manifest_is_found(metadata: str, tmp_path: Path) -> None:
    macro = "{% macro meta() %}\nname: x\nnamespace: shared\nlabels:\n  namespace: other\n{% endmacro %}\n"
    (found,) = contents(tmp_path, f"{macro}apiVersion: v1\nkind: Pod\n{metadata}").manifests
    assert found.namespace == NAMESPACES[metadata]


def test_instructions_are_found(tmp_path: Path) -> None:
    def annotated(line: str) -> str:
        return f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: x\n  annotations:\n    {line}\n"

    kept, computed, hook = (
        contents(tmp_path / name, annotated(line)).manifests[0]
        for name, line in {
            "kept": 'ssa-operator.dev/prune: "false"',
            "computed": "ssa-operator.dev/recreate: {{ spec.recreate }}",
            "hook": "ssa-operator.dev/on: finalize",
        }.items()
    )
    assert (kept.pruned, kept.recreated, kept.finalize_hook) == (False, False, False)
    assert (computed.pruned, computed.recreated, computed.finalize_hook) == (True, True, False)
    assert (hook.pruned, hook.recreated, hook.finalize_hook) == (True, False, True)


# How a template may write an annotation; KEY is `ssa-operator.dev/on`.
SPELLINGS = {
    "block": "metadata:\n  name: x\n  annotations:\n    KEY: finalize\n",
    "quoted": "metadata:\n  name: x\n  annotations:\n    'KEY': \"finalize\"  # a comment\n",
    "flow": "metadata: {name: x, annotations: {KEY: finalize}}\n",
    "flow of annotations": "metadata:\n  name: '{{ name }}'\n  annotations: {a: '{{ name }}', 'KEY': finalize, b: c}\n",
    "flow over lines": "metadata: {\n  name: x,\n  annotations: {\n    KEY: finalize,\n  }\n}\n",
    "computed key": "{% set k = 'KEY' %}\nmetadata:\n  name: x\n  annotations:\n    {{ k }}: finalize\n",
    "value": "metadata:\n  name: x\n  annotations: {{ {'KEY': 'finalize'} | tojson }}\n",
    "variable": "{% set a = {'KEY': 'finalize'} %}\nmetadata:\n  name: x\n  annotations: {{ a | tojson }}\n",
    "variable as yaml": "{% set a = {'KEY': 'finalize'} %}\nmetadata:\n  name: x\n  annotations: {{ a | to_yaml }}\n",
    "metadata": "{% set m = {'name': 'x', 'annotations': {'KEY': 'finalize'}} %}\nmetadata: {{ m }}\n",
    "macro": "{% macro m() %}{KEY: finalize}{% endmacro %}\nmetadata:\n  name: x\n  annotations: {{ m() }}\n",
    "condition": "metadata: {name: x{% if spec.a %}, annotations: {KEY: finalize}{% endif %}}\n",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_finalize_hook_is_found_however_the_template_writes_its_annotation(spelling: str, tmp_path: Path) -> None:
    metadata = SPELLINGS[spelling]
    hook, recreated, other = (
        contents(
            tmp_path / key.replace("/", "."), f"apiVersion: v1\nkind: Pod\n{metadata.replace('KEY', key)}"
        ).manifests
        for key in ("ssa-operator.dev/on", "ssa-operator.dev/recreate", "example.com/on")
    )
    assert any(each.finalize_hook for each in hook)
    assert any(each.recreated for each in recreated)
    assert not any(each.finalize_hook or each.recreated for each in other)


def test_what_a_flow_mapping_says_of_recreate_and_prune_is_read(tmp_path: Path) -> None:
    annotations = '{ssa-operator.dev/prune: "false", ssa-operator.dev/recreate: Never}'
    (found,) = contents(
        tmp_path, f"apiVersion: v1\nkind: Pod\nmetadata: {{name: x, annotations: {annotations}}}\n"
    ).manifests
    assert (found.pruned, found.recreated, found.finalize_hook) == (False, False, False)


@pytest.mark.parametrize(
    "reference",
    ["roleRef: {apiGroup: g, kind: ClusterRole, name: view}", "roleRef:\n  kind: ClusterRole\n  name: view"],
)
def test_the_role_of_a_binding_is_found(reference: str, tmp_path: Path) -> None:
    text = f"apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{name: x}}\n{reference}\n"
    (found,) = contents(tmp_path, text).manifests
    assert found.role == RoleReference("ClusterRole", "view")


def test_a_binding_names_its_role_as_the_template_of_the_role_does(tmp_path: Path) -> None:
    group = "rbac.authorization.k8s.io/v1"
    role = f"apiVersion: {group}\nkind: Role\nmetadata:\n  name: '{{{{ name }}}}-db'\nrules: []\n"
    binding = role.replace("Role", "RoleBinding").replace("rules: []", "roleRef: {kind: KIND, name: '{{ NAME }}-db'}")
    texts = [
        binding.replace("KIND", kind).replace("NAME", name) for kind, name in (("Role", "name"), ("Role", "spec.a"))
    ]
    made, same, other = contents(tmp_path, role, *texts).manifests
    assert (made.rules, made.name) == ((), same.role_name)
    assert other.role_name not in ("", made.name)


# A call, and the name and namespace of the lookup.
LOOKUPS: dict[str, tuple[str | None, str | None]] = {
    "lookup('v1', 'Secret', 'pull')": ("pull", PARENT_NAMESPACE),
    "lookup('v1', 'Secret', 'pull', namespace='registry')": ("pull", "registry"),
    "lookup('v1', 'Secret', 'pull', 'registry', optional=true)": ("pull", "registry"),
    "lookup('v1', kind='Secret', name=name)": (None, PARENT_NAMESPACE),
    "lookup('v1', 'Secret', 'pull', namespace=metadata.namespace)": ("pull", PARENT_NAMESPACE),
    "lookup('v1', 'Secret', 'pull', namespace=spec.where)": ("pull", None),
    "lookup('v1', 'Secret', 'pull', namespace=spec.where | default('registry'))": ("pull", None),
    "'%(a)s' | format(**lookup('v1', 'Secret', 'pull').data)": ("pull", PARENT_NAMESPACE),
    "lookup_all('v1', 'Secret')": (None, PARENT_NAMESPACE),
    "lookup_all('v1', 'Secret', labels={'a': name}, namespace='')": (None, ""),
    "lookup_all('v1', 'Secret', selector=spec.selector, namespaces='')": (None, ""),
    "lookup_all('v1', 'Secret', namespaces=['a'])": (None, "a"),
    "lookup_all('v1', 'Secret', namespaces=[spec.other])": (None, None),
}


@pytest.mark.parametrize("call", LOOKUPS)
def test_a_lookup_is_as_narrow_as_its_constant_arguments(call: str, tmp_path: Path) -> None:
    found = contents(tmp_path, f"{MAP}data: {{{{ {call} | length }}}}\n")
    (lookup,) = found.lookups
    assert (lookup.name, lookup.namespace) == LOOKUPS[call]


def test_lookups_in_conditions_macros_and_the_status_template_are_found(tmp_path: Path) -> None:
    found = contents(
        tmp_path,
        "{% macro key(name) %}{{ lookup('v1', 'Secret', name).data.key }}{% endmacro %}\n"
        f"{{% if lookup('v1', 'ConfigMap', 'switch').data.on %}}\n{MAP}data:\n  a: {{{{ key('one') }}}}\n"
        "{% endif %}\n",
        _status__yaml__j2="b: {{ lookup('v1', 'Node', 'n').status }}\n",
    )
    assert {(each.group_kind.kind, each.name) for each in found.lookups} == {
        ("ConfigMap", "switch"),
        ("Node", "n"),
        ("Secret", "one"),
    }


def test_what_a_role_and_a_binding_grant_is_read_where_it_is_constant(tmp_path: Path) -> None:
    rules = "rules:\n  - apiGroups: [apps]\n    resources: [deployments]\n    verbs: [get]\n"
    reference = "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: ClusterRole\n  name: {name}\n"
    version = "rbac.authorization.k8s.io/v1"
    role, binding, computed = (
        contents(tmp_path / str(number), manifest(version, kind, rest)).manifests[0]
        for number, (kind, rest) in enumerate(
            [
                ("Role", rules),
                ("RoleBinding", reference.format(name="view")),
                ("RoleBinding", reference.format(name="{{ spec.role }}")),
            ]
        )
    )
    assert role.rules == ({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},)
    assert binding.role == RoleReference("ClusterRole", "view")
    assert computed.role is None
    conditional = manifest(version, "Role", rules + "{% if spec.a %}\n  - verbs: [{{ spec.verb }}]\n{% endif %}\n")
    assert contents(tmp_path / "conditional", conditional).manifests[0].rules is None


@pytest.mark.parametrize(
    "root", [ROOT / "templates", *ROOT.glob("examples/*/templates")], ids=lambda root: root.parent.name
)
def test_nothing_of_the_examples_is_unknown(root: Path) -> None:
    for folder in load(root).folders.values():
        found = template_contents(folder)
        assert found.manifests
        assert found.unknown == ()


def test_the_manifests_of_a_file_that_generates_values_are_marked(tmp_path: Path) -> None:
    found = contents(tmp_path, "{% set x = generated(20) %}\n" + MAP, JOB)
    assert {each.group_kind.kind: each.generated_values for each in found.manifests} == {
        "ConfigMap": True,
        "Job": False,
    }
