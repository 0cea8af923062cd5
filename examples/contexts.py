"""Low-level contexts, without an event loop: a batch of reads, a poll, and a cancel that tells the truth."""

import os
import select

from proactor import aio


def main() -> None:
    with aio.Context(max_jobs=64) as context, open(__file__, "rb") as file:
        print(f"on {context.engine}: {context.engine_reason}")

        # Four reads at four offsets, in one submission. Each fills a buffer of its own.
        reads = [aio.Read(file, 256, offset=256 * i, user_data=i) for i in range(4)]
        accepted = context.submit(*reads)
        for event in context.wait(min=accepted):
            print(f"read {event.user_data}: {event.check()} bytes")

        # A pipe that nobody writes to: the poll waits until it is cancelled.
        reader, writer = os.pipe()
        poll = aio.Poll(reader, select.POLLIN)
        context.submit(poll)
        print(f"cancel: {context.cancel(poll).name}")
        (event,) = context.wait()
        print(f"its event: {event.error}")
        os.close(reader)
        os.close(writer)


if __name__ == "__main__":
    main()
