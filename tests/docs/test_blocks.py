"""Every code block of every page is run, rendered, parsed or compared by a test, and a mistake in one is found."""

from __future__ import annotations

import re

import pytest

from docs.generate import reference_pages
from tests.docs.blocks.commands import PROGRAMS, holds_commands, invocations
from tests.docs.blocks.pages import PAGES, Block, blocks, blocks_of
from tests.docs.blocks.readers import READERS, reader_of

BLOCKS = [block for page in PAGES for block in blocks(page)]


@pytest.mark.more_cases
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_has_a_reader_that_finds_nothing_wrong(block: Block) -> None:
    reader = reader_of(block)
    assert reader is not None, f"no test reads a block of the language {block.language!r}; see CONTRIBUTING.md"
    assert list(reader.mistakes(block)) == [], f"the block is {reader.name}"


def test_the_variables_and_annotations_of_all_blocks_exist() -> None:
    known = "".join(reference_pages.pages()[f"reference/{topic}.md"] for topic in ("environment", "metadata"))
    pattern = r"\bSSA_OPERATOR_[A-Z_]+\b|\bssa-operator\\?\.dev/[\w-]+"
    names = {(str(block), name.replace("\\", "")) for block in BLOCKS for name in re.findall(pattern, block.text)}
    assert [each for each in sorted(names) if f"`{each[1]}`" not in known] == []


def test_a_block_in_a_list_and_one_without_a_fence_are_blocks() -> None:
    page = "1. Text:\n\n    ```yaml\n    a: 1\n    ```\n\nOther text.\n\n    make test\n\n```\nplain\n```\n"
    assert [(block.language, block.text, block.line, block.before) for block in blocks_of("page.md", page)] == [
        ("yaml", "a: 1\n", 3, "1. Text:"),
        ("indented", "make test\n", 9, "Other text."),
        ("", "plain\n", 11, "make test"),
    ]


CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ name }}\n"
PATCH = """\
patches:
  - patch: |-
      apiVersion: apps/v1
      kind: Deployment
      metadata: {name: ssa-operator, namespace: ssa-operator}
      spec: {}
"""


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("", "text", "it has no reader"),
        ("rust", "fn main() {}", "it has no reader"),
        ("console", "$ kubectl get echo\nnone\n", "no test types this: $ kubectl get echo"),
        ("sh", "ssa-operator chekc", "there is no command chekc"),
        ("sh", "ssa-operator check --srtict", "No such option: --srtict"),
        ("sh", "ssa-operator capture", "Missing argument"),
        ("sh", "ssa-operator check --output xml", "'xml' is not one of"),
        ("sh", "ssa-operator check --templates templtaes", "there is no templtaes"),
        ("sh", "kubectl ssa tere echo/hello", "there is no command tere"),
        ("sh", "kubectl get pods --all-namespace", "kubectl get has no option --all-namespace"),
        ("sh", "kubectl create serviceacount a", "kubectl has no command create serviceacount"),
        ("sh", "kubectl aply -f examples/echo.yaml", "kubectl has no command aply"),
        ("sh", "kubectl apply -f examples/ehco.yaml", "there is no examples/ehco.yaml"),
        ("sh", "kubectl apply -k deploy/bse", "there is no deploy/bse"),
        ("sh", "ssa-operator rbac > a.yaml\nkubectl apply -f b.yaml", "there is no b.yaml"),
        ("sh", "kubectl get pods -l 'a", "unexpected EOF"),
        ("sh", "(cd deploy/bse && kustomize edit set image a=b)", "deploy/bse"),
        ("sh", "(cd deploy/base && kustomize edit set image operator=b)", "deploy/base has no image operator"),
        ("sh", "make tset", "the Makefile has no target tset"),
        ("sh", "make test JOB=4", "nothing reads JOB"),
        ("sh", 'make test-faults ARGS="--fualt x"', "tests.faults has no option --fualt"),
        ("sh", "pip install 'ssa-operator[al]'", "there is no extra al"),
        ("sh", "pip install --require-hash -r constraints/runtime.txt", "pip install has no option --require-hash"),
        ("sh", "pip-audit --strict", "the workflow ci.yaml runs another command"),
        ("sh", ".venv/bin/pytest tests/objects -k nothing_like_this", "no test has nothing_like_this in its name"),
        ("sh", ".venv/bin/pytest -m 'not clsuter'", "there is no marker clsuter"),
        ("sh", "python -m hatchlnig build", "this is no module of the environment"),
        ("sh", "docker build --target exmaples .", "the Dockerfile has no stage exmaples"),
        ("sh", "docker build --build-arg PIN=admission .", "the Dockerfile has no argument PIN"),
        ("sh", "helm upgrade a deploy/chart --set image.repo=a", "the chart has no value image.repo"),
        ("sh", "tilt up -- --noen=../neon", "the Tiltfile has no option --noen"),
        ("sh", "ctlptl apply -f deploy/dev/knid.yaml", "there is no deploy/dev/knid.yaml"),
        ("sh", "terraform apply", "terraform is no program"),
        ("jinja", f"{CONFIG_MAP}data:\n  a: {{{{ spec.replicas | sha265 }}}}\n", "sha265"),
        ("jinja", f"{CONFIG_MAP}data:\n  a: {{% if %}}\n", "Expected an expression"),
        ("jinja", f"{CONFIG_MAP}daat:\n  a: {{{{ name }}}}\n", "there is no field daat"),
        ("jinja", f"{CONFIG_MAP}data:\n  a: {{{{ child('Secret', 'b').data.a }}}}\n", "no template renders Secret/b"),
        ("jinja", "a: {{ namme }}\n", "namme"),
        ("yaml", f"{CONFIG_MAP}  annotations: {{ssa-operator.dev/apply: Twice}}\n", "Twice"),
        ("yaml", "metadata:\n  annotations:\n    ssa-operator.dev/recreate: Orphans\n", "Orphans"),
        ("yaml", "a: [\n", "did not find expected node content"),
        ("yaml", "a: 1\n", "it has no form that the tests know"),
        (
            "yaml",
            "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {prots: []}\n",
            "there is no field spec.prots",
        ),
        ("yaml", "apiVersion: v2\nkind: Service\nmetadata: {name: a}\n", "there is no schema of Service in v2"),
        (
            "yaml",
            "apiVersion: example.com/v1\nkind: Echo\nmetadata: {name: a}\nspec: {replica: 1}\n",
            "there is no field",
        ),
        ("yaml", "env:\n  - {nmae: A, value: b}\n", "there is no field"),
        ("yaml", "volumes:\n  - {name: a, imag: {}}\n", "there is no field"),
        ("yaml", "data: [a]\n", "data must be a mapping"),
        ("yaml", "formerManagers: helm\n", "formerManagers must be a list"),
        ("yaml", "# --values a.yaml\nechos.example.com: {a: 1}\n", "there is no templates/echos.example.com"),
        ("yaml", "# values.yaml\nimage: {repo: a}\n", "there is no field spec.image.repo"),
        ("yaml", PATCH.replace("spec: {}", "spec: {replica: 2}"), "there is no field spec.replica"),
        ("yaml", PATCH.replace("kind: Deployment", "kind: StatefulSet"), "no matches for Id StatefulSet"),
        ("yaml", PATCH, "this patch changes nothing"),
        (
            "yaml",
            "on: push\njobs: {a: {steps: [{uses: OWNER/ssa-operator@COMMIT, with: {floder: a}}]}}\n",
            "the action has no input floder",
        ),
        ("yaml", "on: push\njobs: {a: {steps: [{uses: actions/checkout@v1}]}}\n", "another version of"),
        ("yaml", "repos: [{hooks: [{id: ssa-operator-chekc}]}]\n", "there is no hook ssa-operator-chekc"),
        ("yaml", "repos: [{hooks: [{id: ssa-operator-check, args: [--srtict]}]}]\n", "No such option: --srtict"),
        ("text", "waiting for Job/web-migrate to become ready", "the operator prints no such message"),
        (
            "text",
            "ConfigMap default/a is in a dependncy cycle: ConfigMap/a -> Job/b",
            "the operator prints no such message",
        ),
        ("python", "a = = 1\n", "invalid syntax"),
        ("python", "plan = 1\n", "before the block has these lines"),
        ("json", "[{]\n", "Expecting property name"),
        ("json", "[]\n", "names no annotation"),
        ("promql", "rate(a[5m)\n", "unexpected character"),
        ("Dockerfile", "FROM a\nCOPY tempaltes templates\n", "there is no tempaltes"),
    ],
)
def test_a_mistake_is_found(language: str, text: str, words: str) -> None:
    (block,) = blocks_of("docs/new.md", f"Text:\n\n```{language}\n{text.rstrip()}\n```\n")
    reader = reader_of(block)
    assert words in ("it has no reader" if reader is None else " ".join(reader.mistakes(block)))


def test_no_row_of_a_table_is_for_a_block_that_is_gone() -> None:
    used = {reader.name for reader in map(reader_of, BLOCKS) if reader is not None}
    assert [reader.name for reader in READERS if reader.name not in used] == []
    started = {words[0] for block in BLOCKS if holds_commands(block) for _, words in invocations(block)}
    assert sorted(PROGRAMS - started) == []
