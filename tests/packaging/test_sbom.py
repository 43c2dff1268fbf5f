"""The list of what the image has: complete, with licences, and the same each time."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from docs.generate.licences import bill_of_materials, licences, runtime_components, table
from tests.packaging.checkout import ROOT

PERMISSIVE = frozenset(
    (
        *("Apache-2.0", "Apache Software License", "BSD License", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT"),
        *("MIT-0", "MPL-2.0", "PSF-2.0", "Python-2.0"),
    )
)
"""Licences that anybody can pass on without publishing their own code."""


@pytest.fixture(scope="module")
def document() -> Mapping[str, Any]:
    made: Mapping[str, Any] = json.loads(bill_of_materials())
    return made


@pytest.fixture(scope="module")
def components(document: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return runtime_components(document)


@pytest.mark.slow
def test_it_lists_every_package_of_the_image(components: Sequence[Mapping[str, Any]]) -> None:
    text = (ROOT / "deploy" / "constraints" / "runtime.txt").read_text()
    pins = set(re.findall(r"^(\S+)==(?!.*win32)", text, re.MULTILINE))
    assert len(pins) > 20
    assert [each["name"].lower().replace("_", "-") for each in components] == sorted(pins)


def test_each_package_has_a_licence_that_anybody_can_pass_on(components: Sequence[Mapping[str, Any]]) -> None:
    for each in components:
        declared = [word for text in licences(each) for word in re.split(r" (?:AND|OR) ", text)]
        assert declared, f"{each['name']} declares no licence"
        assert PERMISSIVE.issuperset(declared), f"{each['name']}: {declared}"


@pytest.mark.slow
def test_two_runs_make_the_same_bytes() -> None:
    assert bill_of_materials() == bill_of_materials()


def test_the_page_of_the_site_lists_the_licences(components: Sequence[Mapping[str, Any]]) -> None:
    text = table()
    assert [each["name"] for each in components if f"| {each['name']} | {each['version']} | " not in text] == []
