"""The audit log of a control plane, as tests read it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.devcluster.audit import _BLOCK, audited, begin


@pytest.mark.parametrize("length", [10, 3 * _BLOCK])
def test_a_line_that_is_half_written_when_a_test_begins_is_read_whole(tmp_path: Path, length: int) -> None:
    log = tmp_path / "audit.log"
    cluster: Any = SimpleNamespace(audit_log=log)
    line = b'{"text": "' + b"x" * length + b'"}\n'
    log.write_bytes(b"")
    begin(cluster)
    assert audited(cluster) == []
    with log.open("ab") as written:
        written.write(b'{"before": true}\n' + line[:8])
        written.flush()
        begin(cluster)
        assert audited(cluster) == []
        written.write(line[8:-1])
        written.flush()
        begin(cluster)
        written.write(line[-1:] + b'{"after"')
        written.flush()
        assert [[*each] for each in audited(cluster)] == [["text"]]
