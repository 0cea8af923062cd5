"""An ASGI application that echoes the bodies of requests, whole or as they come."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Message = dict[str, Any]


async def app(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    assert scope["type"] == "http"
    start: Message = {"type": "http.response.start", "status": 200, "headers": []}
    body = b""
    if scope["path"] == "/stream":
        await send(start)
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        more = message["more_body"]
        if scope["path"] == "/stream":
            await send({"type": "http.response.body", "body": message["body"], "more_body": more})
        body += message["body"]
        if not more:
            break
    if scope["path"] != "/stream":
        start["headers"] = [(b"content-length", b"%d" % len(body))]
        await send(start)
        await send({"type": "http.response.body", "body": body})
