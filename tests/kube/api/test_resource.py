import pytest

from ssa_operator.kube.api.resource import Resource
from ssa_operator.objects.identity import GroupKind

NAMESPACES = Resource(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
DEPLOYMENTS = Resource(group="apps", version="v1", kind="Deployment", plural="deployments", namespaced=True)
CLUSTER_ROLES = Resource(
    group="rbac.authorization.k8s.io", version="v1", kind="ClusterRole", plural="clusterroles", namespaced=False
)


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (NAMESPACES, (), "/api/v1/namespaces"),
        (NAMESPACES, ("", "prod"), "/api/v1/namespaces/prod"),
        (DEPLOYMENTS, (), "/apis/apps/v1/deployments"),
        (DEPLOYMENTS, ("default",), "/apis/apps/v1/namespaces/default/deployments"),
        (DEPLOYMENTS, ("default", "web"), "/apis/apps/v1/namespaces/default/deployments/web"),
        (DEPLOYMENTS, ("default", "web", "status"), "/apis/apps/v1/namespaces/default/deployments/web/status"),
        (CLUSTER_ROLES, ("", "system:foo"), "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Afoo"),
    ],
)
def test_the_path_of_an_object_is_the_one_of_the_api_conventions(
    resource: Resource, arguments: tuple[str, ...], path: str
) -> None:
    assert resource.path(*arguments) == path


@pytest.mark.parametrize("name", [".", "..", "a/b", "a%2fb"])
def test_a_name_that_would_lead_to_another_path_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid object name"):
        DEPLOYMENTS.path("default", name)


def test_a_namespace_of_a_cluster_scoped_object_is_refused() -> None:
    with pytest.raises(ValueError, match=r"clusterroles\.rbac\.authorization\.k8s\.io is cluster-scoped"):
        CLUSTER_ROLES.path("default", "admin")


def test_a_missing_namespace_is_refused_before_it_becomes_another_path() -> None:
    with pytest.raises(ValueError, match=r"deployments\.apps is namespaced: web needs a namespace"):
        DEPLOYMENTS.path("", "web")


def test_a_resource_has_the_name_of_its_crd() -> None:
    assert (NAMESPACES.name, DEPLOYMENTS.name) == ("namespaces", "deployments.apps")
    assert (NAMESPACES.api_version, DEPLOYMENTS.api_version) == ("v1", "apps/v1")
    assert DEPLOYMENTS.group_kind == GroupKind("apps", "Deployment")
