import pytest

from ssa_operator.kube.auth.server_config import proxy_for

PROXY = {"HTTPS_PROXY": "http://proxy:3128"}


@pytest.mark.parametrize(
    "server", ["https://localhost:6443", "https://127.0.0.1:6443", "https://127.9.9.9", "https://[::1]:1"]
)
def test_loopback_is_never_proxied(server: str) -> None:
    assert proxy_for(server, {**PROXY, "NO_PROXY": ""}) is None


@pytest.mark.parametrize(
    ("server", "no_proxy", "proxied"),
    [
        ("https://api.example.com", "", True),
        ("https://api.example.com", "example.com", False),
        ("https://api.example.com", ".example.com", False),
        ("https://api.example.com", "*.example.com", False),
        ("https://example.com", ".example.com", True),
        ("https://notexample.com", "example.com", True),
        ("https://api.example.com", " other.org , EXAMPLE.com ", False),
        ("https://api.example.com", "*", False),
        ("https://10.96.0.1:443", "10.0.0.0/8", False),
        ("https://11.0.0.1:443", "10.0.0.0/8", True),
        ("https://10.96.0.1", "10.96.0.1", False),
        ("https://10.96.0.1:6443", "10.96.0.1:443", True),
        ("https://10.96.0.1:6443", "10.96.0.1:6443", False),
        ("https://[fd00::1]:6443", "fd00::/8", False),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", False),
        ("https://api.example.com", "no/cidr", True),
    ],
)
def test_no_proxy_is_read_as_kubectl_reads_it(server: str, no_proxy: str, proxied: bool) -> None:
    assert proxy_for(server, {**PROXY, "NO_PROXY": no_proxy}) == ("http://proxy:3128" if proxied else None)


def test_each_scheme_has_its_own_variable() -> None:
    assert proxy_for("http://api.example.com", PROXY) is None
    assert proxy_for("http://api.example.com", {"http_proxy": "proxy:80"}) == "http://proxy:80"
