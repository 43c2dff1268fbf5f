"""What the screen of `dev` shows, and what its keys do, as values."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.operator.process.command_error import CommandError
from ssa_operator.tools.dev.dev_screen import KEYS, KeyRequest, Scene, ScreenState, closing, draw, event_text, on_key
from ssa_operator.tools.dev.listen_address import ATTEMPTS, listen_address
from tests.tools.tree.test_tree_view import NOON, child, parent

PLACE = "echoes.example.com/deployment.yaml.j2:9"


def event(reason: str, note: str, minute: int = 0, kind: str = "Warning") -> dict[str, Any]:
    regarding = {"kind": "Echo", "name": "web", "namespace": "default"}
    return {
        "reason": reason,
        "note": note,
        "type": kind,
        "regarding": regarding,
        "eventTime": f"2026-01-01T11:{minute:02}:00.000000Z",
    }


def scene(count: int = 1, **more: Any) -> Scene:
    parents = [parent(f"web-{number:03}", uid=str(number)) for number in range(count)]
    return Scene(parents=parents, **more)


def shown(state: ScreenState, on: Scene, width: int = 80, height: int = 24) -> list[str]:
    return [line.plain.rstrip() for line in draw(state, on, on.rows(NOON), (width, height))]


def press(state: ScreenState, on: Scene, *keys: str) -> tuple[ScreenState, KeyRequest | None]:
    asked = None
    for key in keys:
        state, asked = on_key(state, key, on.rows(NOON), on)
    return state, asked


def test_a_small_terminal_has_tree_message_errors_events_and_keys() -> None:
    message = f"RenderFailed: {PLACE}: spec.replicas is not defined; give it a default or set it in the parent's spec"
    failed = parent("web", "RenderFailed", uid="1", stalled=True)
    failed["conditions"][0]["message"] = message
    events = [event("Created", "created Deployment default/web", 1, "Normal"), event("RenderFailed", message, 2)]
    screen = shown(ScreenState(), Scene(parents=[failed], errors=[f"{PLACE}: bad"], events=events))
    assert len(screen) == 24
    assert screen[0] == "ssa-operator dev: 1 parent, 1 not ready, 1 error"
    assert screen[1].startswith("Echo default/web  RenderFailed  5m  RenderFailed: echoes")
    text = " ".join(screen)
    assert "set it in the parent's spec" in text
    assert "Created Echo/web: created Deployment default/web" in text
    assert screen[-2] == f"{PLACE}: bad"
    assert screen[-1] == KEYS
    assert len(KEYS) <= 80


def test_the_title_counts_folders_that_wait() -> None:
    waiting = {"news.example.com": "the cluster serves no resource news.example.com"}
    screen = shown(ScreenState(), scene(2, waiting=waiting))
    assert screen[0] == "ssa-operator dev: 2 parents, all ready, 1 folder waiting"
    assert "news.example.com waits: the cluster serves no resource news.example.com" in screen
    assert shown(ScreenState(), Scene(waiting=waiting))[0] == "ssa-operator dev: 0 parents, 1 folder waiting"
    assert shown(ScreenState(), Scene())[0] == "ssa-operator dev: 0 parents"


def test_what_the_clusters_start_still_does_is_the_line_below_the_title() -> None:
    note = "No pods yet: Compiling kube-controller-manager, kube-scheduler and kwok, 43 %"
    screen = shown(ScreenState(), scene(cluster_note=note, events=[event("Created", "created", 1)]))
    assert len(screen) == 24
    assert screen[0].startswith("ssa-operator dev: 1 parent")
    assert screen[1] == note
    assert screen[2].startswith("Echo default/web-000")
    assert screen[-1] == KEYS
    assert len(note) <= 80


@pytest.mark.exhaustive
@given(
    st.integers(0, 60),
    st.integers(80, 200),
    st.integers(24, 60),
    st.lists(
        st.sampled_from(["up", "down", "pageup", "pagedown", "home", "end", "e", "l", "q", "x", "p"]), max_size=12
    ),
    st.text(max_size=300),
)
def test_the_screen_has_the_terminals_size_and_the_selected_line(
    count: int, width: int, height: int, keys: list[str], message: str
) -> None:
    on = scene(count, errors=[message], events=[event("Any", message)] * 9, log=[message], waiting={"a.b": message})
    on = replace(on, parents=[*on.parents, parent("web", "Ready", child("Pod", "a", message=message), notes=[message])])
    state, _ = press(ScreenState(), on, *keys)
    lines = draw(state, on, on.rows(NOON), (width, height))
    assert len(lines) == height
    assert all(line.cell_len <= width and len(line.plain.splitlines()) <= 1 for line in lines)
    if state.pager is None:
        chosen = on.rows(NOON)[state.at(on.rows(NOON))]
        highlighted = [line.plain for line in lines if line.style == "reverse"]
        assert len(highlighted) == 1
        assert highlighted[0][:20].rstrip() == str(chosen.line)[:20].rstrip()


def test_the_selection_stays_with_its_object() -> None:
    on = scene(3)
    state, _ = press(ScreenState(), on, "down")
    assert on.rows(NOON)[state.at(on.rows(NOON))].line.name == "default/web-001"
    later = replace(on, parents=[parent("aaa", uid="new"), *on.parents])
    assert later.rows(NOON)[state.at(later.rows(NOON))].line.name == "default/web-001"
    gone = replace(on, parents=on.parents[:1])
    assert gone.rows(NOON)[state.at(gone.rows(NOON))].line.name == "default/web-000"


def test_keys_ask_for_the_parent_of_the_selected_line() -> None:
    nested = child("Deployment", "web", objects=[child("Pod", "web-1")])
    on = Scene(parents=[parent("web", "Ready", nested, uid="1")])
    state, asked = press(ScreenState(), on, "down", "b")
    row = on.rows(NOON)[state.at(on.rows(NOON))]
    assert (asked, row.parent["name"], row.is_child) == (KeyRequest.BLAME, "web", True)
    state, asked = press(state, on, "down", "p")
    row = on.rows(NOON)[state.at(on.rows(NOON))]
    assert (asked, row.parent["name"], row.is_child) == (KeyRequest.PAUSE, "web", False)
    assert press(state, on, "q")[1] is KeyRequest.QUIT
    assert press(state, on, "x")[1] is None


def test_a_key_without_an_object_is_a_notice() -> None:
    state, asked = press(ScreenState(), Scene(), "p")
    assert asked is None
    assert shown(state, Scene())[-1] == "select an object to pause"
    assert press(ScreenState(), Scene(), "q")[1] is KeyRequest.QUIT


def test_an_opened_text_scrolls_and_q_closes_it() -> None:
    on = scene()
    state = ScreenState().opened("diff", "\n".join(map(str, range(100))))
    assert shown(state, on)[:3] == ["diff", "0", "1"]
    state, asked = press(state, on, "down", "pagedown")
    assert shown(state, on)[1] == "11"
    assert asked is None
    state, asked = press(state, on, "end")
    assert shown(state, on)[1] == "99"
    state, asked = press(state, on, "q")
    assert (state.pager, asked) == (None, None)


def test_events_are_one_line_with_their_last_time() -> None:
    repeated = event("Any", "one\ntwo") | {"series": {"lastObservedTime": "2026-01-01T11:30:00Z"}}
    assert event_text(repeated).endswith(" Any Echo/web: one two")
    assert event_text(repeated) != event_text(event("Any", "one two"))
    assert event_text({"reason": "Any"}) == "- Any /: "


def test_a_control_plane_that_is_gone_is_the_title_and_no_error_of_a_template() -> None:
    failed = parent("web", "ApplyFailed", uid="1")
    on = Scene(parents=[failed, parent("app", uid="2")], errors=["can't reach the API server"], outage="etcd ended")
    screen = draw(ScreenState(), on, on.rows(NOON), (80, 24))
    assert screen[0].plain.rstrip() == "ssa-operator dev: the control plane is gone; this is what it had last"
    assert screen[1].plain == "etcd ended"
    assert "error" not in " ".join(shown(ScreenState(), on))
    colours = {str(span.style) for line in screen[2:10] for span in line.spans}
    assert not colours & {"green", "yellow", "red", "bold"}


def test_the_closing_says_what_ran_and_what_is_left() -> None:
    message = f"{PLACE}: spec.replicas is missing"
    failed = parent("web", "RenderFailed", stalled=True)
    failed["conditions"][0]["message"] = message
    parents = [parent(f"web-{number}") for number in range(200)]
    assert closing([*parents, failed], "") == [
        "dev ran 201 parents: 1 RenderFailed, 200 Ready",
        f"Echo default/web  RenderFailed: {message}",
    ]
    many = [parent(f"web-{number}", "Progressing") for number in range(9)]
    assert len(closing(many, "etcd ended")) == 8
    assert closing(many, "etcd ended")[-2:] == [
        "and 4 others that are not ready",
        "The control plane is gone: etcd ended",
    ]
    assert closing([], "") == ["dev ran 0 parents"]


def test_the_next_free_port_takes_the_place_of_a_busy_one_unless_the_user_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        host, found = listen_address(("127.0.0.1", port), named=False) or ("", 0)
        assert host == "127.0.0.1"
        assert port < found < port + ATTEMPTS
        with pytest.raises(
            CommandError, match=f"can't listen on 127.0.0.1:{port}: Address already in use; choose another"
        ):
            listen_address(("127.0.0.1", port), named=True)
    assert listen_address(("127.0.0.1", port), named=True) == ("127.0.0.1", port)
    assert listen_address(None, named=False) is None
    assert listen_address((None, 0), named=True) == (None, 0)
