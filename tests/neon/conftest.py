"""The same cluster fixtures that the controller's tests use. Properties are about results, not about time."""

from __future__ import annotations

from hypothesis import settings

from tests.controller.conftest import client, desk, options, templates

__all__ = ["client", "desk", "options", "templates"]

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
