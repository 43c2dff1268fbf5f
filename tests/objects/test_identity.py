"""Names of kinds that templates and users write."""

from __future__ import annotations

import gc
import tracemalloc

from ssa_operator.objects.identity import GroupKind, Identity, split_api_version


def test_long_texts_are_read_and_do_not_stay_in_memory() -> None:
    tracemalloc.start()
    try:
        for number in range(50):
            text = f"{number:0>100000}"
            assert split_api_version(f"{text}/v1") == (text, "v1")
            assert Identity(text, "Echo", "default", "web").group_kind == GroupKind(text, "Echo")
        del text
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
