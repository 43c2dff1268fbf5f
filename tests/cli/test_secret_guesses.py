"""The output of somebody else's command tells nothing of a Secret by guesses: right and wrong ones look alike."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ssa_operator.kube.api.client import Client
from ssa_operator.operator.operator_options import Options
from tests.cli.process import run
from tests.operator.harness import ECHOES, ROOT, Desk, echo, only, operating

pytestmark = pytest.mark.cluster

RIGHT = "correct-horse-42"
GUESSES = [RIGHT, f"x{RIGHT}", "wrongly-horse-43", "xwrongly-horse-43"]
"""The right ones first, then as many wrong ones of the same form."""

TEMPLATE = """\
{% set pw = lookup('v1', 'Secret', 'vault').data.pw | b64decode %}
apiVersion: v1
kind: Secret
metadata: {name: "{{ name }}-copy"}
stringData:
  pw: "{{ pw }}"
  guess: "{{ annotations.guess }}"
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ name }}-config
  annotations: {said: "{{ annotations.guess }}", dsn: "db://u:{{ pw }}@host"}
data:
  guess: "{{ annotations.guess }}"
  longer: "the guess is {{ annotations.guess }}!"
  pw: "{{ pw }}"
  mine: {{ child('Secret', name ~ '-copy').data.pw }}
---
apiVersion: v1
kind: PodTemplate
metadata: {name: "{{ name }}"}
template:
  spec:
    containers:
      - name: main
        image: example.com/main:1
        args: ["--guess={{ annotations.guess }}", "{{ annotations.guess }}", "{{ pw }}"]
        env:
          - {name: GUESS, value: "{{ annotations.guess }}"}
          - {name: PASSWORD, value: "{{ pw }}"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ name }}-more", labels: {guess: "{{ annotations.guess }}!"}}
"""
"""The last one is refused, so that a message quotes the guess."""


def guessing(name: str, guess: str) -> dict[str, Any]:
    body = echo(name)
    body["metadata"]["annotations"] = {"guess": guess}
    return body


def without(text: str, guess: str, name: str) -> str:
    """A text with words for the guess and the parent, and with numbers for hashes, times and uids."""
    text = text.replace(guess, "GUESS").replace(name, "PARENT")
    text = re.sub(r"[0-9-]+T[0-9:.]+Z", "TIME", text)
    hashes: dict[str, str] = {}
    found = r"\(hash [0-9a-f]+\)|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|['\"]\d+['\"]|masked-\d+"
    return re.sub(found, lambda match: hashes.setdefault(match[0], f"HASH{len(hashes)}"), text)


def alike(texts: Sequence[str]) -> None:
    for text in texts:
        assert RIGHT not in text, text
    assert texts[0] == texts[2]
    assert texts[1] == texts[3]


class Shown:
    """Runs commands over one parent for each guess."""

    def __init__(self, desk: Desk, templates: Path) -> None:
        self.at = ("-n", desk.namespace, f"--kubeconfig={desk.kubeconfig}", f"--templates={templates}")

    async def by(self, *arguments: str, stdin: bool = False, codes: frozenset[int] = frozenset({0, 1, 2})) -> list[str]:
        """What a command prints for each guess; `PARENT` in its arguments is the parent's name."""
        texts = []
        for at, guess in enumerate(GUESSES):
            words = [each.replace("PARENT", f"web-{at}") for each in arguments]
            given = json.dumps(guessing(f"web-{at}", guess)) if stdin else ""
            code, out, err = await run(*words, *self.at, stdin=given)
            assert code in codes, err
            texts.append(without(out + err, guess, f"web-{at}"))
        return texts


@pytest.fixture
async def shown(desk: Desk, client: Client, templates: Path) -> Shown:
    await desk.kubectl("create", "secret", "generic", "vault", f"--from-literal=pw={RIGHT}")
    only(templates, a=TEMPLATE)
    async with operating(client, Options(templates=(templates,), namespaces=(desk.namespace,), listen=None)):
        for at, guess in enumerate(GUESSES):
            await desk.apply(guessing(f"web-{at}", guess))
        for at in range(len(GUESSES)):
            await desk.until("configmaps", f"web-{at}-config", lambda body: bool(body.get("data")))
            await desk.read("podtemplates", f"web-{at}")
    return Shown(desk, templates)


@pytest.mark.exhaustive
async def test_the_fields_of_live_children_show_no_guess_to_be_right(shown: Shown) -> None:
    for output in ("yaml", "json"):
        alike(await shown.by("blame", "echo/PARENT", f"--output={output}"))


async def test_the_graph_shows_no_guess_to_be_right(shown: Shown) -> None:
    alike(await shown.by("graph", "echo/PARENT"))


@pytest.mark.exhaustive
async def test_a_diff_shows_no_guess_to_be_right(shown: Shown, templates: Path) -> None:
    changed = TEMPLATE.replace("db://u", "db://other").replace("the guess is", "the guess was").replace(":1", ":2")
    changed = changed.replace('  pw: "{{ pw }}"\n', '  pw: "{{ pw }}+"\n').replace("  mine: ", "  more: ")
    (templates / ECHOES / "a.yaml.j2").write_text(changed)
    for arguments in (("diff", "echo/PARENT"), ("diff", "echo/PARENT", "--output=json")):
        texts = await shown.by(*arguments)
        alike(texts)
        assert "the guess was GUESS" in texts[0]
    # A plan, and a snapshot of what it reads, which holds the guesses of all parents.
    snapshot = templates.parent / "snapshot.json"
    for option in ("--output=json", "--output=markdown", f"--save={snapshot}"):
        _, out, err = await run("plan", option, *shown.at)
        assert not set(re.findall(rf"[\w-]*{RIGHT}", out + err)) - {RIGHT, f"x{RIGHT}"}
    stored = json.loads(snapshot.read_text())
    for each in stored["objects"]:
        words = json.dumps(each.get("data")) + json.dumps(each.get("template"))
        number = re.search(r"web-(\d)", each["metadata"]["name"])
        assert (RIGHT in words) == (number is not None and int(number[1]) < 2 and each["kind"] != "Secret")
    # A parent in a file that takes the content away shows nothing of what it was.
    (templates / ECHOES / "a.yaml.j2").write_text(TEMPLATE.replace("pw: ", "other: ").replace("dsn: ", "url: "))
    alike(await shown.by("diff", "-", stdin=True))
    alike(await shown.by("plan", "--output=json", "--selector=none"))
    (templates / ECHOES / "a.yaml.j2").write_text(TEMPLATE.replace("{{ name }}-config", "{{ name }}-renamed"))
    alike(await shown.by("diff", "echo/PARENT"))


async def test_a_captured_case_shows_no_guess_to_be_right(shown: Shown, tmp_path: Path, templates: Path) -> None:
    good = TEMPLATE.replace("{{ annotations.guess }}!", "{{ annotations.guess }}")
    (templates / ECHOES / "a.yaml.j2").write_text(good)
    await shown.by("capture", "echo/PARENT", "--case=PARENT", f"--crds={ROOT / 'crds'}", codes=frozenset({0}))
    cases = templates.parent / "tests" / ECHOES
    texts = []
    for at, guess in enumerate(GUESSES):
        files = sorted((cases / f"web-{at}").iterdir())
        texts.append(without("".join(f"{each.name}\n{each.read_text()}" for each in files), guess, f"web-{at}"))
    alike(texts)
    assert "guess: GUESS" in texts[0]
