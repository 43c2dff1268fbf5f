import pytest

from ssa_operator.kube.api import request as calls
from ssa_operator.kube.api.errors import ApiError, StatusError, Unreachable
from ssa_operator.kube.api.request import Request
from ssa_operator.kube.api.retry import ATTEMPTS, PATIENCE, pause, watch_pause
from tests.kube.fakes import CONFIG_MAPS

GET = calls.get(CONFIG_MAPS, "a", "default")
APPLY = calls.apply(CONFIG_MAPS, "default", "a", b"{}")
DELETE = calls.delete(CONFIG_MAPS, "default", "a", calls.Deletion("uid"))
CREATE = calls.create(CONFIG_MAPS, "default", b"{}")
MERGE = calls.merge_patch(CONFIG_MAPS, "default", "a", b"{}")


def refused(code: int, message: str = "", retry_after: float | None = None) -> ApiError:
    return ApiError("x", StatusError(code=code, message=message, retry_after=retry_after))


BROKEN = Unreachable("x", "reset", sent=True)
NOT_CONNECTED = Unreachable("x", "refused", sent=False)


@pytest.mark.parametrize("request_", [GET, APPLY, DELETE], ids=str)
@pytest.mark.parametrize(
    "error", [BROKEN, NOT_CONNECTED, refused(429), refused(500), refused(503), refused(504)], ids=str
)
def test_what_may_be_done_twice_is_repeated_after_a_passing_error(request_: Request, error: ApiError) -> None:
    assert pause(request_, error, 0, 0.5) is not None


@pytest.mark.parametrize("request_", [CREATE, MERGE], ids=str)
@pytest.mark.parametrize("error", [BROKEN, refused(500), refused(504)], ids=str)
def test_what_may_have_been_done_already_is_not_repeated(request_: Request, error: ApiError) -> None:
    assert pause(request_, error, 0, 0.5) is None


@pytest.mark.parametrize("error", [NOT_CONNECTED, refused(429)], ids=str)
def test_what_was_certainly_not_done_is_repeated_whatever_it_is(error: ApiError) -> None:
    assert pause(CREATE, error, 0, 0.5) is not None


@pytest.mark.parametrize(
    "error",
    [refused(400), refused(403), refused(409), refused(422), refused(500, "failed to create typed patch object")],
)
def test_what_fails_again_is_not_repeated(error: ApiError) -> None:
    assert pause(APPLY, error, 0, 0.5) is None


def test_the_pauses_grow_and_end() -> None:
    pauses = [pause(APPLY, BROKEN, attempt, 0.5) for attempt in range(ATTEMPTS)]
    assert pauses == [0.05, 0.1, 0.2, None]


def test_the_wait_that_the_server_asks_for_is_kept_unless_it_is_the_callers_to_wait() -> None:
    assert pause(APPLY, refused(429, retry_after=2), 0, 0.5) == 2.05
    assert pause(APPLY, refused(429, retry_after=PATIENCE + 1), 0, 0.5) is None


def test_a_watch_comes_back_after_0_8_to_60_seconds() -> None:
    assert [watch_pause(failures, 0.0) for failures in (1, 2, 3, 7, 1000)] == [0.8, 1.6, 3.2, 30.0, 30.0]
    assert watch_pause(1, 0.99) < 1.6


def test_an_apply_says_everything_in_its_request() -> None:
    assert APPLY.target == (
        "/api/v1/namespaces/default/configmaps/a?fieldManager=ssa-operator&force=true&fieldValidation=Strict"
    )
    assert APPLY.content_type == "application/apply-patch+yaml"
    assert calls.apply(CONFIG_MAPS, "default", "a", b"", dry_run=True).target.endswith("&dryRun=All")


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
