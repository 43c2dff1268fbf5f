import pytest

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.errors import ApiError, ErrorStatus, Unreachable
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.api.request_retry import ATTEMPTS, PATIENCE, retry_delay, watch_backoff
from tests.kube.fakes import CONFIG_MAPS

GET = calls.get(CONFIG_MAPS, "a", "default")
APPLY = calls.apply(CONFIG_MAPS, "default", "a", b"{}")
DELETE = calls.delete(CONFIG_MAPS, "default", "a", calls.DeleteOptions(uid="uid"))
CREATE = calls.create(CONFIG_MAPS, "default", b"{}")
MERGE = calls.merge_patch(CONFIG_MAPS, "default", "a", b"{}")


def refused(code: int, message: str = "", retry_after: float | None = None) -> ApiError:
    return ApiError("x", ErrorStatus(code=code, message=message, retry_after=retry_after))


BROKEN = Unreachable("x", "reset", sent=True)
NOT_CONNECTED = Unreachable("x", "refused", sent=False)


@pytest.mark.parametrize("request_", [GET, APPLY, DELETE], ids=str)
@pytest.mark.parametrize(
    "error", [BROKEN, NOT_CONNECTED, refused(429), refused(500), refused(503), refused(504)], ids=str
)
def test_an_idempotent_request_is_retried_after_a_transient_error(request_: Request, error: ApiError) -> None:
    assert retry_delay(request_, error, 0, 0.5) is not None


@pytest.mark.parametrize("request_", [CREATE, MERGE], ids=str)
@pytest.mark.parametrize("error", [BROKEN, refused(500), refused(504)], ids=str)
def test_a_request_that_the_server_may_have_processed_is_not_retried(request_: Request, error: ApiError) -> None:
    assert retry_delay(request_, error, 0, 0.5) is None


@pytest.mark.parametrize("error", [NOT_CONNECTED, refused(429)], ids=str)
def test_every_request_that_the_server_has_not_processed_is_retried(error: ApiError) -> None:
    assert retry_delay(CREATE, error, 0, 0.5) is not None


@pytest.mark.parametrize(
    "error",
    [refused(400), refused(403), refused(409), refused(422), refused(500, "failed to create typed patch object")],
)
def test_a_terminal_error_is_not_retried(error: ApiError) -> None:
    assert retry_delay(APPLY, error, 0, 0.5) is None


def test_the_retry_delays_grow_and_end() -> None:
    pauses = [retry_delay(APPLY, BROKEN, attempt, 0.5) for attempt in range(ATTEMPTS)]
    assert pauses == [0.05, 0.1, 0.2, None]


def test_the_client_waits_for_retry_after_unless_it_is_longer_than_its_patience() -> None:
    assert retry_delay(APPLY, refused(429, retry_after=2), 0, 0.5) == 2.05
    assert retry_delay(APPLY, refused(429, retry_after=PATIENCE + 1), 0, 0.5) is None


def test_a_watch_backs_off_for_0_8_to_60_seconds() -> None:
    assert [watch_backoff(failures, 0.0) for failures in (1, 2, 3, 7, 1000)] == [0.8, 1.6, 3.2, 30.0, 30.0]
    assert watch_backoff(1, 0.99) < 1.6


def test_an_apply_request_has_its_field_manager_force_and_validation() -> None:
    assert APPLY.target == (
        "/api/v1/namespaces/default/configmaps/a?fieldManager=ssa-operator&force=true&fieldValidation=Strict"
    )
    assert APPLY.content_type == "application/apply-patch+yaml"
    assert calls.apply(CONFIG_MAPS, "default", "a", b"", calls.ApplyOptions(dry_run=True)).target.endswith(
        "&dryRun=All"
    )


def test_a_list_names_its_labels_its_page_and_its_token_encoded() -> None:
    scope = calls.Scope(CONFIG_MAPS, "default", "a in (b,c)")
    assert calls.list_page(scope, limit=500, token="x=/+").target == (
        "/api/v1/namespaces/default/configmaps?labelSelector=a%20in%20%28b%2Cc%29&limit=500&continue=x%3D%2F%2B"
    )


def test_a_watch_begins_with_a_version_or_with_the_present_objects() -> None:
    scope = calls.Scope(CONFIG_MAPS)
    assert "resourceVersion=5" in calls.watch(scope, resource_version="5", seconds=300).target
    streamed = calls.watch(scope, resource_version="", seconds=300).target
    assert "sendInitialEvents=true&resourceVersionMatch=NotOlderThan" in streamed


def test_a_request_never_shows_its_body() -> None:
    secret = calls.apply(CONFIG_MAPS, "default", "a", b"hunter2")
    assert "hunter2" not in f"{secret!r} {secret}"
