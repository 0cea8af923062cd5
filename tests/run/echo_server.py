"""An echo server on asyncio, or on uvloop. Prints at its end how many connections it has left."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from typing import cast


class Echo(asyncio.Protocol):
    left = 0
    made = 0
    empty: asyncio.Event

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's are no subclass of Transport.
        self.transport = cast("asyncio.Transport", transport)
        Echo.left += 1
        Echo.made += 1
        Echo.empty.clear()
        if Echo.made % 50 == 0:
            # Between vfork and exec the child shares all memory, and closes all descriptors.
            subprocess.run(["true"], check=True)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)

    def eof_received(self) -> None:
        """The transport sends what is left and closes itself."""

    def pause_writing(self) -> None:
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def connection_lost(self, error: Exception | None) -> None:
        Echo.left -= 1
        if Echo.left == 0:
            Echo.empty.set()


async def main(port: int) -> None:
    loop = asyncio.get_running_loop()
    end = asyncio.Event()
    Echo.empty = asyncio.Event()
    Echo.empty.set()
    loop.add_signal_handler(signal.SIGTERM, end.set)
    server = await loop.create_server(Echo, "127.0.0.1", port, backlog=1000)
    await end.wait()
    server.close()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(Echo.empty.wait(), 10)
    print(Echo.left)


if __name__ == "__main__":
    if sys.argv[2] == "uvloop":
        import uvloop

        uvloop.install()
    asyncio.run(main(int(sys.argv[1])))
