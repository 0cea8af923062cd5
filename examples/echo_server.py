"""An echo server on the loop's ring.

`python examples/echo_server.py PORT` serves until it is interrupted; without a port it serves itself once.
"""

import asyncio
import sys

from proactor import net


async def echo(stream: net.Stream) -> None:
    while data := await stream.read(1 << 16):
        stream.write(data)
        # Waits if the peer reads too slowly.
        await stream.drain()


async def main(port: int) -> None:
    async with await net.serve(echo, "127.0.0.1", port) as server:
        print("listens on", *server.addresses[0], "by", net.chosen_engine()[0])
        if port:
            await server.serve_forever()
        async with await net.connect(*server.addresses[0]) as stream:
            stream.write(b"hello")
            print(await stream.readexactly(5))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
