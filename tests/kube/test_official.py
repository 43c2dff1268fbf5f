"""In processes of their own: what is imported there is the question."""

import subprocess
import sys


def run(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def test_reading_credentials_imports_no_model_of_the_official_client() -> None:
    program = (
        "import sys; from ssa_operator.kube.official import config; found = config();"
        "print(found.kube_config.KubeConfigMerger.__name__, [name for name in sys.modules if 'kubernetes' in name])"
    )
    assert run(program) == "KubeConfigMerger []"


def test_the_whole_official_client_can_be_imported_afterwards() -> None:
    program = (
        "from ssa_operator.kube.official import config; config();"
        "import kubernetes, kubernetes.aio.client;"
        "print(kubernetes.client.CoreV1Api.__name__, kubernetes.aio.client.ApiClient.__name__)"
    )
    assert run(program) == "CoreV1Api ApiClient"


def test_where_it_was_imported_before_that_one_is_used() -> None:
    program = (
        "import kubernetes.aio.config; from ssa_operator.kube.official import config;"
        "import sys; print(config().kube_config is sys.modules['kubernetes.aio.config.kube_config'])"
    )
    assert run(program) == "True"


def test_the_client_comes_without_jinja_without_yaml_and_without_the_official_client() -> None:
    program = (
        "import sys, ssa_operator.kube.client, ssa_operator.kube.reflector, ssa_operator.kube.discovery;"
        "print([name for name in ('jinja2', 'yaml', 'kubernetes', 'rich', 'prometheus_client') if name in sys.modules])"
    )
    assert run(program) == "[]"
