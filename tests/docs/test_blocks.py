"""Every code block of every page is run, rendered, parsed or compared by a test, and a mistake in one is found."""

from __future__ import annotations

import re

import pytest

from ssa_operator.cli import reference
from tests.docs.blocks.commands import APPLICATION, PROGRAMS, invocations
from tests.docs.blocks.pages import PAGES, Block, blocks, blocks_of
from tests.docs.blocks.readers import COMMANDS, READERS, reader_of

BLOCKS = [block for page in PAGES for block in blocks(page)]


@pytest.mark.more_cases
@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_has_a_reader_that_finds_nothing_wrong(block: Block) -> None:
    reader = reader_of(block)
    assert reader is not None, f"no reader of tests/docs/blocks reads the language {block.language!r}"
    assert list(reader.mistakes(block)) == [], f"the block is {reader.name}"


def test_the_variables_and_annotations_of_all_blocks_exist() -> None:
    known = reference.text("environment", APPLICATION) + reference.text("metadata", APPLICATION)
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
SERVICE = "kind: Service\nmetadata: {name: a}\nspec: {ports: [{port: 80}]"
OPERATOR = "metadata: {name: ssa-operator, namespace: ssa-operator}"
PATCH = f"patches:\n- patch: '{{apiVersion: apps/v1, kind: Deployment, {OPERATOR}"


@pytest.mark.more_cases
@pytest.mark.parametrize(
    ("language", "text", "words"),
    [
        ("", "text", "it has no reader"),
        ("rust", "fn main() {}", "it has no reader"),
        ("console", "NAME   AGE\n", "no test types this"),
        ("sh", "ssa-operator chekc", "there is no command chekc"),
        ("sh", "ssa-operator check --srtict", "No such option: --srtict"),
        ("sh", "ssa-operator capture", "Missing argument"),
        ("sh", "ssa-operator check --output xml", "'xml' is not one of"),
        ("sh", "ssa-operator check --templates templtaes", "there is no templtaes"),
        ("sh", "kubectl ssa tere echo/hello", "there is no command tere"),
        ("sh", "kubectl apply -f examples/ehco.yaml", "there is no examples/ehco.yaml"),
        ("sh", "kubectl apply -k deploy/bse", "there is no deploy/bse"),
        ("sh", "ssa-operator rbac > a.yaml\nkubectl apply -f b.yaml", "there is no b.yaml"),
        ("sh", "kubectl get pods -l 'a", "No closing quotation"),
        ("sh", "curl $(ssa-operator stauts)", "there is no command stauts"),
        ("sh", "(cd deploy && kubectl apply -k bse)", "there is no bse"),
        ("sh", "make tset", "there is no tset in Makefile"),
        ("sh", "make test JOB=4", "there is no JOB in Makefile"),
        ("sh", 'make transcripts ARGS="--fualt x"', "docs.generate has no option --fualt"),
        ("sh", ".venv/bin/python -m tests.faults --fualt x", "tests.faults has no option --fualt"),
        ("sh", "pip install 'ssa-operator[al]'", "there is no al in pyproject.toml"),
        ("sh", ".venv/bin/pytest tests/objects -k nothing_like_this", "there is no nothing_like_this in tests"),
        ("sh", ".venv/bin/pytest -m 'not clsuter'", "there is no clsuter in pyproject.toml"),
        ("sh", "python -m hatchlnig build", "this is no module of the environment"),
        ("sh", "docker build --target exmaples .", "there is no exmaples in Dockerfile"),
        ("sh", "helm upgrade a deploy/chart --set image.repo=a", "there is no repo in deploy/chart/values.yaml"),
        ("sh", "tilt up -- --noen=../neon", "there is no noen in Tiltfile"),
        ("sh", "terraform apply", "this is no program"),
        ("jinja", f"{CONFIG_MAP}data:\n  a: {{{{ spec.replicas | sha265 }}}}\n", "sha265"),
        ("jinja", f"{CONFIG_MAP}data:\n  a: {{% if %}}\n", "Expected an expression"),
        ("jinja", f"{CONFIG_MAP}daat:\n  a: {{{{ name }}}}\n", "there is no field daat"),
        ("jinja", f"{CONFIG_MAP}data:\n  a: {{{{ child('Secret', 'b').data.a }}}}\n", "no template renders Secret/b"),
        ("jinja", "a: {{ namme }}\n", "namme"),
        ("yaml", f"{CONFIG_MAP}  annotations: {{ssa-operator.dev/apply: Twice}}\n", "Twice"),
        ("yaml", "metadata:\n  annotations:\n    ssa-operator.dev/recreate: Orphans\n", "Orphans"),
        ("yaml", "a: [\n", "did not find expected node content"),
        ("yaml", "a: 1\na: 2\n", "is there twice"),
        ("yaml", "a: 1\n", "a is not a setting"),
        ("yaml", f"apiVersion: v1\n{SERVICE}, prots: []}}\n", "there is no field spec.prots"),
        ("yaml", f"apiVersion: v2\n{SERVICE}}}\n", "there is no schema of Service in v2"),
        (
            "yaml",
            "apiVersion: example.com/v1\nkind: Echo\nmetadata: {name: a}\nspec: {replica: 1}\n",
            "there is no field",
        ),
        ("yaml", "env:\n  - {nmae: A, value: b}\n", "there is no field"),
        ("yaml", "formerManagers: helm\n", "formerManagers must be a list"),
        ("yaml", "# --values a.yaml\nechos.example.com: {a: 1}\n", "there is no templates/echos.example.com"),
        ("yaml", "# values.yaml\nimage: {repo: a}\n", "there is no field spec.image.repo"),
        ("yaml", f"{PATCH}, spec: {{replica: 2}}}}'\n", "there is no field spec.replica"),
        ("yaml", f"{PATCH.replace('Deployment', 'Job')}}}'\n", "no matches for Id Job"),
        ("yaml", "repos:\n- hooks: [{id: ssa-operator-chekc}]\n", "there is no hook ssa-operator-chekc"),
        ("text", "waiting for Job/web-migrate to become ready", "to become ready"),
        ("text", "ConfigMap default/a is in a dependncy cycle: ConfigMap/a -> Job/b", "is in a dependncy cycle"),
        ("json", "[{]\n", "Expecting property name"),
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
    started = {words[0] for block in BLOCKS if block.language in COMMANDS for _, words in invocations(block)}
    assert sorted(PROGRAMS - started) == []
