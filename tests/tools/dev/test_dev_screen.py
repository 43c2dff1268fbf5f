"""What the screen of `dev` shows, and what its keys do, as values and as terminals send them."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools.dev.dev_console import clipboard_sequence, parse_keys
from ssa_operator.tools.dev.dev_screen import HELP, KEYS, KeyRequest, ScreenState, closing, draw, on_key
from ssa_operator.tools.dev.dev_session import ATTEMPTS, listen_address
from ssa_operator.tools.dev.scene import CheckFinding, Scene, event_text
from ssa_operator.tools.tree.object_history import ObjectEvent
from tests.tools.tree.test_tree_view import NOON, child, parent

PLACE = "echoes.example.com/deployment.yaml.j2:9"


KEYS_PRESSED = [
    "up",
    "down",
    "pageup",
    "end",
    "v",
    "l",
    "q",
    "x",
    "p",
    "enter",
    "n",
    "/",
    "left",
    "right",
    "f",
    "?",
    "c",
    "escape",
    "backspace",
]


def event(reason: str, note: str, minute: int = 0, kind: str = "Warning", **more: Any) -> ObjectEvent:
    body = {
        "reason": reason,
        "note": note,
        "type": kind,
        "regarding": {"kind": "Echo", "name": "web", "namespace": "default"},
        "eventTime": f"2026-01-01T11:{minute:02}:00.000000Z",
    }
    return ObjectEvent.of(body | more)


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
    assert f"{PLACE}: bad" not in text, "the selected line's message has the error of this line already"
    later, _ = press(ScreenState(), Scene(parents=[parent("app", uid="2"), failed], errors=[message]), "home")
    screen = shown(later, Scene(parents=[parent("app", uid="2"), failed], errors=[f"{PLACE}: bad"], events=events))
    assert screen[-2] == f"{PLACE}: bad"
    assert not any("replicas" in line for line in screen), "the Event repeats the error"
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
    st.lists(st.sampled_from([*KEYS_PRESSED]), max_size=12),
    st.text(max_size=300),
)
def test_the_screen_has_the_terminals_size_and_the_selected_line(
    count: int, width: int, height: int, keys: list[str], message: str
) -> None:
    on = scene(count, errors=[message], events=[event("Any", message)] * 9, log=[message], waiting={"a.b": message})
    on = replace(
        on,
        kubeconfig="export KUBECONFIG=/a/b",
        page="http://x/ui/",
        findings=[CheckFinding(severity="error", message=message)],
    )
    on = replace(on, parents=[*on.parents, parent("web", "Ready", child("Pod", "a", message=message), notes=[message])])
    state, _ = press(ScreenState(), on, *keys)
    lines = draw(state, on, on.rows(NOON), (width, height))
    assert len(lines) == height
    assert all(line.cell_len <= width and len(line.plain.splitlines()) <= 1 for line in lines)
    if state.pager is None:
        visible = state.shown(on.rows(NOON))
        chosen = visible[state.at(visible)]
        highlighted = [line.plain for line in lines if line.style == "reverse"]
        assert len(highlighted) == 1
        assert highlighted[0].split()[:2] == str(chosen.line).split()[:2]


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
    assert shown(state, on)[:3] == ["diff: 1-22 of 100", "0", "1"]
    state, asked = press(state, on, "down", "pagedown")
    assert shown(state, on)[1] == "11"
    assert asked is None
    state, asked = press(state, on, "end")
    assert shown(state, on)[1] == "99"
    state, asked = press(state, on, "q")
    assert (state.pager, asked) == (None, None)


def test_own_events_and_warnings_come_before_those_by_which_kubernetes_reports_what_went_as_always() -> None:
    routine = [event(f"Routine{minute}", "as always", minute, "Normal") for minute in range(20, 40)]
    own = event("Applied", "changed it", 1, "Normal", reportingController="ssa-operator")
    on = scene(events=[own, event("BackOff", "it crashes", 2), *routine])
    below = [
        line.split()[1] for line in shown(ScreenState(), on) if line.startswith(("11:", "12:", "13:")) or ":00 " in line
    ]
    assert below[:2] == ["Applied", "BackOff"]
    assert below[-1] == "Routine39"
    opened, _ = on_key(ScreenState(), "v", on.rows(0.0), on)
    assert [line.split()[1] for line in opened.pager or ()][:3] == ["BackOff", "Applied", "Routine39"]


def test_events_are_one_line_with_their_last_time() -> None:
    repeated = event("Any", "one\ntwo", series={"lastObservedTime": "2026-01-01T11:30:00Z"})
    assert event_text(repeated).endswith(" Any Echo/web: one two")
    assert event_text(repeated) != event_text(event("Any", "one two"))
    assert event_text(ObjectEvent.of({"reason": "Any"})) == "- Any /: "


def test_a_control_plane_that_is_gone_is_the_title_and_no_error_of_a_template() -> None:
    failed = parent("web", "ApplyFailed", uid="1")
    on = Scene(parents=[failed, parent("app", uid="2")], errors=["can't reach the API server"], outage="etcd ended")
    screen = draw(ScreenState(), on, on.rows(NOON), (80, 24))
    assert screen[0].plain.rstrip() == "ssa-operator dev: the control plane is gone; this is what it had last"
    assert screen[1].plain == "etcd ended"
    assert "error" not in " ".join(shown(ScreenState(), on))
    colours = {str(span.style) for line in screen[2:10] for span in line.spans}
    assert not colours & {"green", "yellow", "red", "bold"}


def test_a_refused_crd_is_one_error_in_the_words_of_check() -> None:
    words = "type of spec.replicas: Unsupported value"
    finding = CheckFinding(
        severity="error", code="crd-refused", message=f"CRD a.b.c: {words}", file="crds/a.yaml", line=9
    )
    refused = {"a.b.c": "crds/a.yaml:12: apply failed", "d.b.c": "crds/d.yaml:1: apply failed"}
    problems = Scene(refused_crds=refused, findings=[finding]).problems
    assert problems == [str(finding), "crds/d.yaml:1: apply failed"]


def test_the_closing_says_what_ran_and_what_is_left() -> None:
    message = f"{PLACE}: spec.replicas is missing"
    failed = parent("web", "RenderFailed", stalled=True)
    failed["conditions"][0]["message"] = message
    parents = [parent(f"web-{number}") for number in range(200)]
    assert closing([*parents, failed]) == [
        "dev ran 201 parents: 1 RenderFailed, 200 Ready",
        f"Echo default/web  RenderFailed: {message}",
    ]
    many = [parent(f"web-{number}", "Progressing") for number in range(9)]
    assert len(closing(many)) == 7
    assert closing(many)[-1] == "and 4 others that are not ready"
    assert closing([]) == ["dev ran 0 parents"]
    assert closing(many, outage=True) == [f"dev ran {len(many)} parents until the control plane was gone"]


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


NESTED = child(
    "Deployment", "web", "InProgress", uid="2", objects=[child("Pod", "web-1", uid="3"), child("Pod", "web-2")]
)
TREE = Scene(
    parents=[
        parent("app", "Progressing", NESTED, uid="1"),
        parent("db", uid="4"),
        parent("web", "RenderFailed", uid="5"),
    ]
)


def selected(state: ScreenState, on: Scene) -> str:
    """The highlighted line."""
    lines = draw(state, on, on.rows(NOON), (80, 24))
    return next(line.plain.rstrip() for line in lines if line.style == "reverse")


def test_the_command_for_other_terminals_stays_visible_and_e_copies_it() -> None:
    on = scene(60, kubeconfig="export KUBECONFIG=/state/kubeconfig")
    for keys in ((), ("end",), ("/", "w")):
        state, _ = press(ScreenState(), on, *keys)
        assert shown(state, on)[1] == "export KUBECONFIG=/state/kubeconfig"
    assert press(ScreenState(), on, "e")[1] is KeyRequest.COPY
    page = replace(on, page="http://localhost:8080/ui/")
    assert shown(ScreenState(), page)[2] == "In a browser (w): http://localhost:8080/ui/"
    assert press(ScreenState(), page, "w")[1] is KeyRequest.PAGE
    state, asked = press(ScreenState(), on, "w")
    assert (state.notice, asked) == ("there is no web view, because --listen names no port", None)
    assert "web view" in HELP
    assert press(ScreenState(), Scene(), "e")[1] is KeyRequest.COPY
    assert clipboard_sequence("a") == "\x1b]52;c;YQ==\x07"


def test_states_and_ages_stand_in_columns_and_the_selected_row_has_no_colours() -> None:
    on = Scene(
        parents=[parent("a", "Ready", child("ConfigMap", "a-long-name"), uid="1"), parent("bb", "Progressing", uid="2")]
    )
    lines = draw(ScreenState(), on, on.rows(NOON), (80, 24))[1:4]
    texts = [line.plain.rstrip() for line in lines]
    assert texts == [
        "Echo default/a                     Ready        5m",
        "└── ConfigMap default/a-long-name  Current",
        "Echo default/bb                    Progressing  5m  because Progressing  (for 6…",
    ]
    assert (lines[0].style, lines[0].spans) == ("reverse", [])
    assert "yellow" in {str(span.style) for span in lines[2].spans}


def test_n_selects_the_next_object_that_is_not_ready() -> None:
    state, _ = press(ScreenState(), TREE, "n")
    assert selected(state, TREE).startswith("└── Deployment default/web")
    state, _ = press(state, TREE, "n")
    assert selected(state, TREE).startswith("Echo default/web")
    state, _ = press(state, TREE, "n")
    assert selected(state, TREE).startswith("Echo default/app")
    state, _ = press(state, TREE, "N")
    assert selected(state, TREE).startswith("Echo default/web")
    state, _ = press(ScreenState(), Scene(parents=[parent()]), "n")
    assert shown(state, Scene(parents=[parent()]))[-1] == "everything is ready"
    waiting = Scene(parents=[parent()], waiting={"news.example.com": "no CRD"})
    assert selected(press(ScreenState(), waiting, "n")[0], waiting).startswith("news.example.com waits")


def test_a_filter_shows_the_lines_with_a_text_and_those_above_them() -> None:
    state, _ = press(ScreenState(), TREE, "/", "W", "e", "b", "-", "1", "2", "backspace")
    screen = shown(state, TREE)
    assert [line.strip("│├└─ ").split("  ")[0] for line in screen[1:5]] == [
        "Echo default/app",
        "Deployment default/web",
        "Pod default/web-1",
        "",
    ]
    assert screen[-1].startswith("/Web-1_ ")
    state, asked = press(state, TREE, "enter", "q")
    assert asked is KeyRequest.QUIT, "after Enter, keys are keys again"
    assert "only 'Web-1'" in shown(state, TREE)[0]
    state, _ = press(state, TREE, "escape")
    assert any("Echo default/db" in line for line in shown(state, TREE))
    state, _ = press(state, TREE, "/", "x", "x", "x")
    assert shown(state, TREE)[1] == "no line has 'xxx'"
    assert press(state, TREE, "enter", "p")[1] is None


def test_left_and_right_fold_and_unfold_and_f_does_with_all_parents() -> None:
    state, _ = press(ScreenState(), TREE, "left")
    screen = shown(state, TREE)
    assert screen[1].endswith("▸ 3 lines")
    assert screen[2].startswith("Echo default/db")
    state, _ = press(state, TREE, "right")
    assert shown(state, TREE)[2].startswith("└── Deployment")
    state, _ = press(state, TREE, "down", "down", "left")
    assert selected(state, TREE).startswith("└── Deployment"), "a leaf folds what it belongs to"
    assert selected(state, TREE).endswith("▸ 2 lines")
    state, _ = press(ScreenState(), TREE, "f")
    assert [line.split("  ")[0] for line in shown(state, TREE)[1:4]] == [
        f"Echo default/{name}" for name in ("app", "db", "web")
    ]
    assert shown(press(state, TREE, "f")[0], TREE)[2].startswith("└── Deployment")


def test_enter_shows_the_whole_text_conditions_and_events_of_the_selected_line() -> None:
    message = " ".join(f"word-{number}" for number in range(30))
    failed = parent("web", "RenderFailed", uid="1")
    failed["conditions"][0]["message"] = message
    about = event("Any", "the note", regarding={"kind": "Echo", "name": "web", "uid": "1"})
    on = Scene(parents=[failed], events=[about, event("Other", "of another")])
    state, asked = press(ScreenState(), on, "enter")
    assert asked is None
    text = " ".join(" ".join(shown(state, on)).split())
    assert f"message: {message}" in text
    assert "condition Ready=False RenderFailed: " in text
    assert "the note" in text
    assert "of another" not in text
    waiting = Scene(waiting={"a.b": message})
    assert message in " ".join(" ".join(shown(press(ScreenState(), waiting, "enter")[0], waiting)).split())


def test_question_mark_shows_all_keys() -> None:
    state, _ = press(ScreenState(), scene(), "?")
    assert shown(state, scene())[1 : 1 + len(HELP.splitlines())] == HELP.splitlines()
    assert len(HELP.splitlines()) <= 22
    assert shown(press(state, scene(), "q")[0], scene())[-1] == KEYS


def test_findings_of_check_are_counted_listed_and_errors_only_once() -> None:
    found = [
        CheckFinding(severity="error", message="bad", code="render-error", file=f"templates/{PLACE[:-2]}", line=9),
        CheckFinding(severity="error", message="no kind", code="unknown-kind", file="templates/a.b/c.yaml.j2", line=2),
        CheckFinding(severity="warning", message="a tag", code="latest-image"),
    ]
    on = Scene(parents=[parent()], errors=[f"{PLACE}: bad"], findings=found)
    screen = shown(ScreenState(), on)
    assert screen[0] == "ssa-operator dev: 1 parent, all ready, 2 errors, 1 warning"
    assert screen[-3:-1] == [
        f"templates/{PLACE}: error: bad [render-error]",
        "templates/a.b/c.yaml.j2:2: error: no kind [unknown-kind]",
    ]
    listed = shown(press(ScreenState(), on, "c")[0], on)
    assert listed[1:4] == [
        f"templates/{PLACE}: error: bad [render-error]",
        "templates/a.b/c.yaml.j2:2: error: no kind [unknown-kind]",
        "warning: a tag [latest-image]",
    ]


def test_the_selected_line_has_the_words_of_check_which_say_what_to_do() -> None:
    failed = parent("web", "ApplyFailed", uid="1", stalled=True)
    failed["conditions"][0]["message"] = f"{PLACE}: apply failed: .spec.replcas: field not declared in schema"
    found = CheckFinding(
        severity="error",
        message="there is no field spec.replcas",
        fix="did you mean spec.replicas?",
        code="unknown-field",
        file=f"templates/{PLACE[:-2]}",
        line=9,
    )
    on = Scene(parents=[failed], errors=[failed["conditions"][0]["message"]], findings=[found])
    text = " ".join(" ".join(shown(ScreenState(), on)[2:]).split())
    assert "there is no field spec.replcas; did you mean spec.replicas? [unknown-field]" in text
    assert "not declared" not in text


def test_without_errors_the_first_warning_is_shown() -> None:
    found = [CheckFinding(severity="warning", message=each, code="latest-image") for each in ("one", "two")]
    on = Scene(parents=[parent()], findings=found)
    assert shown(ScreenState(), on)[-2] == "warning: one [latest-image] (c shows all 2)"
    assert shown(ScreenState(), replace(on, errors=["bad"]))[-2] == "bad"
    long = replace(on, errors=["long " * 20 + "end", "b.yaml:1: " + "other " * 20])
    assert " ".join(shown(ScreenState(), long)[-4:-2]) == "long " * 20 + "end", "the first error is shown whole"
    assert shown(ScreenState(), long)[-2].endswith("…")


def test_of_many_errors_the_first_are_shown() -> None:
    on = Scene(parents=[parent()], errors=[f"a.yaml:{line}: bad" for line in range(1, 20)])
    assert [line for line in shown(ScreenState(), on) if "bad" in line] == [
        f"a.yaml:{line}: bad" for line in range(1, 7)
    ]


def test_terminals_send_keys_as_sequences() -> None:
    assert parse_keys("\x1b[A\x1bOBq\x1b[5~\x1b[99~G\x1b") == ["up", "down", "q", "pageup", "G", "escape"]


@pytest.mark.parametrize(
    ("sequences", "key"),
    [(("\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"), "home"), (("\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"), "end")],
)
def test_home_and_end_work_in_every_terminal(sequences: tuple[str, ...], key: str) -> None:
    assert parse_keys("".join(sequences)) == [key] * len(sequences)
