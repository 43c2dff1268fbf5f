"""Objects of files are as the API server would return them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssa_operator.operator.process.streams import CommandError
from ssa_operator.tools.offline.documents import read_objects
from ssa_operator.tools.offline.offline_cluster import live_objects

SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata: {a: MQ==, b: Mg==}\nstringData: {b: VALUE}\n"


def test_the_string_data_of_a_secret_is_its_data(tmp_path: Path) -> None:
    path = tmp_path / "secret.yaml"
    path.write_text(SECRET.replace("VALUE", "hello"))
    (live,) = live_objects(read_objects([path]), frozenset(), "default").values()
    assert (live.body["data"], "stringData" in live.body) == ({"a": "MQ==", "b": "aGVsbG8="}, False)
    path.write_text(SECRET.replace("VALUE", "1"))
    with pytest.raises(CommandError, match=r"secret.yaml:1: Secret s has stringData.b that is no string"):
        live_objects(read_objects([path]), frozenset(), "default")
