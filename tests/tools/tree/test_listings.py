"""The lists of a command."""

from __future__ import annotations

from collections import Counter
from typing import cast

from ssa_operator.kube.api.client import Client
from ssa_operator.kube.api.errors import ApiError, ErrorStatus
from ssa_operator.kube.api.request import Scope
from ssa_operator.objects.live_object import LiveObject
from ssa_operator.tools.tree.listings import Lists
from tests.kube.fakes import CONFIG_MAPS, live

HERE, THERE = Scope(CONFIG_MAPS, "here"), Scope(CONFIG_MAPS, "there")


class CountedLists:
    """A client that counts the lists of each scope, and may not list one."""

    def __init__(self) -> None:
        self.lists: Counter[Scope] = Counter()

    async def list_scope(self, scope: Scope, _page: int) -> tuple[list[LiveObject], str]:
        self.lists[scope] += 1
        if scope == THERE:
            raise ApiError("list", ErrorStatus(code=403))
        return [live("a", 1)], "1"


async def test_a_command_lists_a_scope_once_however_many_parents_have_children_in_it() -> None:
    client = CountedLists()
    lists = Lists(cast("Client", client))
    found = [await lists.read(scopes) for scopes in ([HERE], [HERE, THERE], [THERE, HERE])]
    assert client.lists == {HERE: 1, THERE: 1}
    assert [[each.identity.name for each in listings[HERE].objects] for listings in found] == [["a"]] * 3
    assert [listings[THERE].forbidden for listings in found[1:]] == [True, True]
