"""What the operator remembers of the Secrets that a parent's templates read."""

from __future__ import annotations

import base64
import random
from typing import cast

from msgspec.structs import replace

from ssa_operator.informers.child_informers import ChildInformers
from ssa_operator.informers.parents import Parent
from ssa_operator.objects.identity import GroupKind, Identity
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.objects.secret_fields import NO_SECRETS, ParentSecrets, SecretFields
from ssa_operator.reconcile.secrets.redacted_report import with_render
from tests.rendering.template_files import FakeClusterView, live, parent, render_with

CHILD = Identity("", "ConfigMap", "n", "c")
TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: {{ lookup('v1', 'Secret', 's').data.%s }}}\n"


class _Children(set[Identity]):
    def namespaced(self, _: GroupKind) -> bool:
        return True


class _Resource:
    confidential = False


class _Parent:
    def __init__(self) -> None:
        self.live = LiveObject.of(parent())
        self.resource = _Resource()


def after(known: ParentSecrets, key: str, content: str, *existing: Identity) -> ParentSecrets:
    data = {each: base64.b64encode(content.encode()).decode() for each in ("a", "b")}
    rendered = render_with({"a.yaml.j2": TEXT % key}, FakeClusterView(others=(live("Secret", "s", data=data),)))
    return with_render(known, rendered, cast("Parent", _Parent()), cast("ChildInformers", _Children(existing)))


def test_a_secret_that_changes_leaves_nothing_but_paths() -> None:
    chance, known = random.Random(1), NO_SECRETS
    for version in range(20):
        before = known
        known = after(known, "a", chance.randbytes(1000).hex(), CHILD)
        assert version == 0 or known is before
    assert known == ParentSecrets(children={CHILD: SecretFields((("data", "a"),))}, read=True, read_others=True)


def test_a_field_that_once_held_content_stays_one_while_the_child_exists() -> None:
    known = replace(NO_SECRETS, children={CHILD: SecretFields((("data", "b"),))})
    assert after(known, "a", "hunter2", CHILD).of(CHILD).paths == (("data", "b"), ("data", "a"))
    other = Identity("", "ConfigMap", "n", "gone")
    known = replace(NO_SECRETS, children={other: SecretFields((("data", "b"),))})
    assert after(known, "a", "hunter2").children.keys() == {CHILD}
    assert after(known, "a", "hunter2", other).children.keys() == {CHILD, other}
