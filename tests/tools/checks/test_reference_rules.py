"""What a manifest names in the other manifests of its render."""

from __future__ import annotations

import pytest

from ssa_operator.objects.annotations import Reference
from ssa_operator.rendering.folder.object_files import objects
from ssa_operator.tools.checks.manifest_rules import check_references
from ssa_operator.tools.findings import Finding

MADE = """apiVersion: v1
kind: ConfigMap
metadata: {name: shop-config}
data: {index.html: a}
---
apiVersion: v1
kind: Secret
metadata: {name: shop-auth}
stringData: {password: a}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {ports: [{name: http, port: 80}]}
---
"""
POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: shop}\nspec:\n  containers: [{name: a, image: 'a:1'}]\n"
INGRESS = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: shop}\nspec:\n  "


def volume(source: str) -> str:
    return f"{POD}  volumes: [{{name: v, {source}}}]\n"


def variable(source: str) -> str:
    return f"{POD[:-3]}, env: [{{name: V, valueFrom: {{{source}}}}}]}}]\n"


def backend(text: str) -> str:
    return f"{INGRESS}defaultBackend: {{service: {text}}}\n"


def findings(text: str, *known: Reference, spec: dict[str, str] | None = None) -> list[Finding]:
    parent = {"metadata": {"name": "shop"}, "spec": spec or {}}
    return list(check_references(objects(MADE + text, "a.yaml"), parent, known))


@pytest.mark.parametrize(
    ("text", "words", "fix"),
    [
        (volume("configMap: {name: shop-conf}"), "no template renders this ConfigMap", "did you mean shop-config?"),
        (volume("secret: {secretName: shop-auht}"), "no template renders this Secret", "did you mean shop-auth?"),
        (variable("secretKeyRef: {name: shop-auth, key: passwort}"), "key is passwort, and Secret", "password?"),
        (
            volume("configMap: {name: shop-config, items: [{key: x, path: x}]}"),
            "items[0].key is x",
            "it has index.html",
        ),
        (backend("{name: shop-web, port: {number: 80}}"), "renders this Service", "did you mean shop?"),
        (backend("{name: shop, port: {number: 8080}}"), "port.number is 8080, and Service shop", "it has 80"),
        (backend("{name: shop, port: {name: web}}"), "port.name is web, and Service shop", "it has http"),
    ],
)
def test_a_name_that_this_render_should_have_is_found(text: str, words: str, fix: str) -> None:
    (found,) = findings(text)
    assert words in found.message
    assert fix in found.fix


@pytest.mark.parametrize(
    "text",
    [
        volume("secret: {secretName: shop-tls}"),
        volume("secret: {secretName: shop-auht, optional: true}"),
        variable("secretKeyRef: {name: shop-auth, key: other, optional: true}"),
        variable("secretKeyRef: {name: credentials, key: other}"),
        f"{POD}  serviceAccountName: builder\n",
        f"{POD}  serviceAccountName: webshop\n",
        backend("{name: shop, port: {name: http}}"),
        backend("{name: shop-web, port: {number: 80}}")
        + "---\napiVersion: a.example.com/v1\nkind: Web\nmetadata: {name: a}",
    ],
)
def test_a_name_of_an_object_that_others_may_create_is_no_mistake(text: str) -> None:
    assert findings(text) == []


def test_what_the_examples_have_and_what_the_parent_names_is_made_elsewhere() -> None:
    text = f"{POD}  serviceAccountName: shop-runner\n"
    assert len(findings(text)) == 1
    assert findings(text, Reference("ServiceAccount", "shop-runner")) == []
    assert findings(text, spec={"account": "shop-runner"}) == []
