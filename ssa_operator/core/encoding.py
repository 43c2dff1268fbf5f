"""Placeholder until kube's encoder lands."""

from __future__ import annotations

from typing import Any

import msgspec


def encode(body: Any) -> bytes:
    return msgspec.json.encode(body)
