"""The docstrings of attributes, which Python does not keep."""

from __future__ import annotations

import ast
import inspect
import itertools


def docs_of(source: str) -> dict[str, str]:
    """The docstrings of the assignments of a text, by name."""
    body = ast.parse(source).body
    return {
        name: inspect.cleandoc(after.value.value)
        for each, after in itertools.pairwise(body)
        for name in assigned(each)
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) and isinstance(after.value.value, str)
    }


def assigned(node: ast.stmt) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def class_docs(kind: type) -> list[str]:
    """The docstrings of the attributes of a class, in order. Raises ValueError if an attribute has none."""
    (node,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(node, ast.ClassDef)
    names = [name for each in node.body for name in assigned(each)]
    docs = docs_of("\n".join(map(ast.unparse, node.body)))
    missing = [name for name in names if name not in docs]
    if missing:
        raise ValueError(f"{kind.__module__}.{kind.__name__}: {', '.join(missing)} have no docstrings")
    return [docs[name] for name in names]
