"""Nothing: docs/cookbook.md is a part of docs/templates.md, and `tests.docs.blocks.readers` still imports this name."""

from tests.docs.test_templates import READ

__all__ = ["READ"]
