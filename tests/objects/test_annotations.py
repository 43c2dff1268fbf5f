"""The instructions in a manifest's annotations."""

from __future__ import annotations

import pytest

from ssa_operator.objects.annotations import AnnotationError, parse_annotations


def test_all_invalid_instructions_are_named_at_once() -> None:
    annotations = {"prune": "maybe", "applly": "Once", "recreate": "Never", "after": "web"}
    with pytest.raises(AnnotationError) as raised:
        parse_annotations({f"ssa-operator.dev/{name}": value for name, value in annotations.items()})
    assert str(raised.value).split("; annotation ") == [
        "annotation ssa-operator.dev/prune is 'maybe'; allowed are true, false",
        "ssa-operator.dev/applly is not an instruction of ssa-operator; did you mean ssa-operator.dev/apply?",
        """ssa-operator.dev/after has 'web'; write "Kind/name, Kind/name\"""",
    ]
