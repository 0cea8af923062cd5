"""A server that answers each line with the line in capitals.

`python examples/line_server.py PORT` serves until it is interrupted; without a port it serves itself once.
"""

import asyncio
import sys

from proactor import net


async def answer(stream: net.Stream) -> None:
    # A line of more than 1,000 bytes is a ValueError, which resets this connection and no other.
    async for line in stream:
        stream.write(line.upper())
        await stream.drain()


async def main(port: int) -> None:
    async with await net.serve(answer, "127.0.0.1", port, limit=1000) as server:
        print("listens on", *server.addresses[0])
        if port:
            await server.serve_forever()
        async with await net.connect(*server.addresses[0]) as stream:
            stream.write(b"one\ntwo\n")
            stream.write_eof()
            print([line async for line in stream])


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
