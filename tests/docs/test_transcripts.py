"""The commands that a page tells its reader to type print what the page shows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.generate import transcripts
from docs.generate.transcripts import ROOT, CommandFailed, lasting, played, rewritten, type_in
from ssa_operator.devcluster.cluster import Cluster, ClusterSpec, start

PAGE = """\
Text.

```console
$ kubectl get echo
NAME   AGE
a-bcdfg    4s
$ kubectl delete echo a
gone
```

Now add `templates/a/b.yaml.j2`:

```yaml
a: 1
```

```console
$ kubectl get service
old
```
"""


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "PAUSE", 0.0)


async def test_a_page_keeps_its_output_where_only_ages_and_random_names_differ(tmp_path: Path) -> None:
    typed = []

    async def run(text: str) -> str:
        typed.append(text)
        if text == "kubectl get service":
            assert (tmp_path / "templates/a/b.yaml.j2").read_text() == "a: 1\n"
            return "new\n"
        return {"kubectl get echo": "NAME      AGE\na-zzzzz   2m\n", "kubectl delete echo a": "gone\n"}[text]

    assert await rewritten(PAGE, tmp_path, run) == PAGE.replace("old\n", "new\n")
    assert typed[:2] == ["kubectl get echo", "kubectl delete echo a"]


def test_a_transcript_after_a_path_is_no_file(tmp_path: Path) -> None:
    async def run(_: str) -> str:
        return "new\n"

    page = "Apply `examples/a.yaml`:\n\n```console\n$ kubectl apply -f examples/a.yaml\nold\n```\n"
    assert asyncio.run(rewritten(page, tmp_path, run)) == page.replace("old\n", "new\n")
    assert list(tmp_path.iterdir()) == []


async def test_what_the_page_shows_is_waited_for_also_if_another_state_lasts_for_some_seconds(tmp_path: Path) -> None:
    outputs = ["Progressing\n"] * 20 + ["Ready\n"]

    async def run(_: str) -> str:
        return outputs.pop(0) if len(outputs) > 1 else outputs[0]

    page = "```console\n$ ssa-operator status\nReady\n```\n"
    assert await rewritten(page, tmp_path, run) == page


async def test_a_command_that_the_page_shows_without_output_gets_what_lasts(tmp_path: Path) -> None:
    outputs = ["Waiting\n", "Progressing\n"] * 2 + ["Ready\n"] * 3 + ["Gone\n"] * 60

    async def run(_: str) -> str:
        return outputs.pop(0)

    page = "```console\n$ ssa-operator status\n```\n"
    assert await rewritten(page, tmp_path, run) == page.replace("status\n", "status\nReady\n")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("web-7fb96c846b-x2xxk  1/1", "web-7fb96c846b-zzzzz   1/1", True),
        ("web  3m10s", "web   4s", True),
        ("web  10.0.0.1", "web  10.1.2.3", True),
        ("web-hello", "web-world", False),
        ("Ready", "Failed", False),
    ],
)
def test_lasting_output_is_compared_without_what_passes(one: str, other: str, same: bool) -> None:
    assert (lasting(one) == lasting(other)) is same


async def test_a_command_may_fail_only_where_the_page_shows_its_error(tmp_path: Path) -> None:
    async def run(text: str) -> str:
        raise CommandFailed(text, "ssa-operator: broken\n")

    page = "```console\n$ ssa-operator check\nssa-operator: broken\n```\n"
    assert await rewritten(page, tmp_path, run) == page
    with pytest.raises(CommandFailed):
        await rewritten("```console\n$ ssa-operator check\n```\n", tmp_path, run)


async def test_a_command_that_does_not_end_fails(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match=r"it has not ended after 0\.1 seconds"):
        await type_in("sleep 600 & wait", tmp_path, tmp_path, limit=0.1)


def test_pages_outside_the_examples_are_transcripts_too() -> None:
    assert ROOT / "README.md" in transcripts.pages()


TEXTS = {
    page: page.read_text(encoding="utf-8") for page in transcripts.pages() if ROOT / "examples" not in page.parents
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A control plane of the pages' own: commands like `status` print what other tests leave behind, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSA_OPERATOR_STATE_DIR", str(tmp_path_factory.mktemp("state")))
        with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
            running = runner.run(start(ClusterSpec(name="transcripts")))
            try:
                yield running
            finally:
                runner.run(running.stop())


@pytest.fixture
def hidden_secrets() -> None:
    """Nothing searches for contents of Secrets: this control plane has no audit log."""


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
async def test_the_commands_of_a_page_print_what_it_shows(
    page: Path, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The processes of a command that is repeated at once take what the operator needs.
    monkeypatch.setattr(transcripts, "PAUSE", 0.5)
    assert await played(page, TEXTS[page], tmp_path, cluster.kubeconfig) == TEXTS[page]
