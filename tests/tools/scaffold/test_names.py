"""The names of a new resource."""

from __future__ import annotations

import pytest

from ssa_operator.tools.scaffold.names import ResourceNames, ScaffoldError, refuse_invalid_names
from ssa_operator.tools.scaffold.project import NewRequest, parts


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("WebSite", "websites"),
        ("Status", "statuses"),
        ("Policy", "policies"),
        ("Gateway", "gateways"),
        ("Box", "boxes"),
        ("Patch", "patches"),
    ],
)
def test_the_plural_is_the_one_that_kubernetes_derives(kind: str, plural: str) -> None:
    names = parts(NewRequest(kind=kind, group="example.com")).names
    assert (names.plural, names.singular) == (plural, kind.lower())
    assert parts(NewRequest(kind=kind, group="example.com", plural="others")).names.plural == "others"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "webSite"}, "'webSite' is no valid kind"),
        ({"kind": "Web-Site"}, "'Web-Site' is no valid kind"),
        ({"kind": ""}, "'' is no valid kind"),
        ({"kind": "A" * 60}, "at most 59 characters"),
        ({"group": "example"}, "with at least one dot"),
        ({"group": "Example.com"}, "is no valid API group"),
        ({"group": "apps.k8s.io"}, "is reserved for Kubernetes"),
        ({"plural": "Things"}, "is no valid plural"),
        ({"plural": "2things"}, "is no valid plural"),
        ({"version": "1"}, "use one as v1, v1beta1 or v1alpha1"),
        ({"group": ".".join(["a" * 60] * 4) + ".example"}, "use a shorter API group"),
    ],
)
def test_a_name_that_the_api_server_refuses_is_refused_before(changes: dict[str, str], words: str) -> None:
    given = {"kind": "Thing", "group": "example.com", "plural": "things", "version": "v1"} | changes
    with pytest.raises(ScaffoldError) as caught:
        refuse_invalid_names(ResourceNames(**given))
    assert words in str(caught.value)
