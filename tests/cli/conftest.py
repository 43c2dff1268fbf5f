"""The same cluster fixtures that the controller's tests use."""

from __future__ import annotations

from tests.controller.conftest import client, desk, group, templates

__all__ = ["client", "desk", "group", "templates"]
