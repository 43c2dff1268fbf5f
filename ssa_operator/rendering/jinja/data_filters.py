"""Filters that read data from text: JSON, YAML, and Kubernetes quantities.

Promises:
- The result is plain data, as if the template had it from the parent. It can't become YAML syntax.
- A value within template text stays a value, with its type and its provenance.
- An error never contains the text, because it may be the content of a Secret.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

from ssa_operator.objects.quantity import QUANTITY_LIMIT, amount
from ssa_operator.objects.source_location import SourceLocation
from ssa_operator.rendering.values import limits
from ssa_operator.rendering.values.limits import DEPTH_LIMIT
from ssa_operator.rendering.values.line_marks import MarkedText, StaticText
from ssa_operator.rendering.values.manifest_values import UnfitValueError, json_data, text_of
from ssa_operator.rendering.values.template_text import RenderedText, Text
from ssa_operator.rendering.yaml.documents import parse
from ssa_operator.rendering.yaml.nodes import DocumentError, SlotValues


def from_json(value: Any) -> Any:
    """The data of a JSON text."""
    text = _text("from_json", value)
    try:
        return json_data(msgspec.json.decode(text))
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise UnfitValueError("from_json: the text is not JSON") from None
    except RecursionError:
        raise UnfitValueError(f"from_json: the text is nested deeper than {DEPTH_LIMIT} levels") from None


def from_yaml(value: Any) -> Any:
    """The data of a text with one document of YAML 1.2, by the rules of manifests; none for an empty text."""
    text = _text("from_yaml", value)
    try:
        nodes = parse(StaticText(text, "from_yaml"))
        data = [node.build(SlotValues()) for node in nodes]
    except DocumentError as error:
        raise UnfitValueError(f"from_yaml: the text is not YAML in its line {error.location.line}") from None
    return _only(data)


def template_data(text: Text, files: Sequence[str]) -> Any:
    """The data of template text. The values in it stay values: none of them becomes YAML syntax.

    `files` are the names of the templates, by the numbers in line marks. Raises DocumentError.
    """
    written = RenderedText(text.pieces)
    source = MarkedText(written.marked, files, SourceLocation(files[0], 1))
    slots = SlotValues(written.values, written.texts, written.sizes, tracked=written.tracked)
    return _only([node.build(slots) for node in parse(source)])


def bytes_of(value: Any) -> int:
    """The number of a Kubernetes quantity (`1Gi`, `500M`, `2`), rounded up: 1073741824."""
    return _quantity("bytes", value, 1)


def millis_of(value: Any) -> int:
    """The number of thousandths of a Kubernetes quantity (`250m`, `1.5`, `2`), rounded up: 250."""
    return _quantity("millis", value, 1000)


def _only(data: Sequence[Any]) -> Any:
    if len(data) > 1:
        raise UnfitValueError(f"from_yaml: the text has {len(data)} documents; it may have one")
    return data[0] if data else None


def _quantity(name: str, value: Any, factor: int) -> int:
    found = None if isinstance(value, bool) else amount(value)
    if found is None:
        if isinstance(value, str) and len(value) > QUANTITY_LIMIT:
            raise UnfitValueError(f"{name}: the quantity has {len(value)} characters, and may have {QUANTITY_LIMIT}")
        raise UnfitValueError(f"{name} needs a quantity such as 500m or 1Gi")
    return math.ceil(found * factor)


def _text(name: str, value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float, dict, list, tuple)):
        raise UnfitValueError(f"{name} needs a text, and this value is {'null' if value is None else 'data already'}")
    text = text_of(value)  # also what `tojson` and `to_yaml` give
    limits.current().produce(len(text))
    return text
