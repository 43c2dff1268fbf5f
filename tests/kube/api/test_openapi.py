"""The documents of an API server whose groups come and go."""

from __future__ import annotations

from aiohttp import web

from ssa_operator.kube.api.openapi import read_openapi
from tests.kube.fakes import scripted

ANSWERS = {
    "/version": '{"major": "1", "minor": "36", "gitVersion": "v1.36.3"}',
    "/openapi/v3": """{"paths": {
      "apis/gone.example.com/v1": {"serverRelativeURL": "/openapi/v3/apis/gone.example.com/v1"},
      "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1"}
    }}""",
    "/openapi/v3/apis/apps/v1": '{"components": {}}',
}


async def test_a_group_whose_last_crd_is_deleted_meanwhile_is_left_out() -> None:
    async def script(request: web.BaseRequest) -> web.Response:
        text = ANSWERS.get(request.path)
        return web.Response(text="404 page not found\n", status=404) if text is None else web.Response(text=text)

    async with scripted(script) as client:
        assert await read_openapi(client) == ("1.36", [{"components": {}}])


async def test_a_group_whose_document_is_empty_for_a_moment_is_left_out() -> None:
    """A real API server answers so while the first or the last CRD of a group comes or goes."""

    async def script(request: web.BaseRequest) -> web.Response:
        return web.Response(text=ANSWERS.get(request.path, ""))

    async with scripted(script) as client:
        assert await read_openapi(client) == ("1.36", [{"components": {}}])
