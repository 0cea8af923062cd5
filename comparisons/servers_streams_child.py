"""One echo server in Python: `servers_streams_child.py KIND ENGINE LOOP HOST:PORT`, until it is ended."""

from __future__ import annotations

import asyncio
import importlib.util
import sys

from proactor import net

READ = 1 << 16


def has_uvloop() -> bool:
    return importlib.util.find_spec("uvloop") is not None


async def by_streams(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(READ):
        writer.write(data)
        await writer.drain()
    writer.close()


async def by_proactor(stream: net.Stream) -> None:
    while data := await stream.read(READ):
        stream.write(data)
        await stream.drain()


class Echo(asyncio.Protocol):
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def main(kind: str, engine: str, host: str, port: int) -> None:
    if kind == "proactor":
        await (await net.serve(by_proactor, host, port, engine=engine)).serve_forever()
    elif kind == "streams":
        await (await asyncio.start_server(by_streams, host, port)).serve_forever()
    else:
        loop = asyncio.get_running_loop()
        await (await loop.create_server(Echo, host, port)).serve_forever()


if __name__ == "__main__":
    kind, engine, loop, address = sys.argv[1:]
    if loop == "uvloop":
        import uvloop

        uvloop.install()
    host, _, port = address.rpartition(":")
    asyncio.run(main(kind, engine, host, int(port)))
