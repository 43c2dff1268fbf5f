"""Plain scalars of templates that kubectl reads otherwise are named."""

from __future__ import annotations

import pytest

from ssa_operator.tools.checks.text_rules import check_scalars
from tests.rendering.template_files import FOLDER, HEAD, rendered


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("v: 0644", 'v is the text 0644, where kubectl and Helm read 420: write "0644" or 420'),
        ("v: [a, yes]", 'v[1] is the text yes, where kubectl and Helm read true: write "yes" or true'),
        ("v: 1_000  # many", 'v is the text 1_000, where kubectl and Helm read 1000: write "1_000" or 1000'),
        ('v: "0644"', ""),
        ("v: 0o644", ""),
        ("v: {{ spec.mode }}", ""),
        ("v: 10:30", ""),
    ],
)
def test_a_plain_scalar_that_kubectl_reads_otherwise_is_named(line: str, found: str) -> None:
    files = {"a.yaml.j2": f"{HEAD}{line}\n"}
    documents = rendered(files, {"mode": "0644"}).documents
    texts = {f"{FOLDER}/{name}": text for name, text in files.items()}
    assert [f"{each.message}: {each.fix}" for each in check_scalars(documents, texts)] == ([found] if found else [])


def test_a_static_manifest_is_read_as_kubectl_reads_it() -> None:
    (document,) = rendered({"a.yaml": f"{HEAD}v: 0644\n"}).documents
    assert document.body["v"] == 0o644
    assert [*check_scalars([document], {})] == []
