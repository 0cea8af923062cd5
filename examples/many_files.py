"""Reads many files at once, without holding up the event loop: `python examples/many_files.py FILE...`"""

import asyncio
import sys

import proactor


async def main(paths: list[str]) -> int:
    failed = 0
    async for path, data in proactor.read_many(paths, concurrency=64):
        if isinstance(data, bytes):
            print(f"{path}: {len(data)} bytes")
        else:
            # One bad file does not end the batch.
            print(f"{path}: {data}", file=sys.stderr)
            failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(min(asyncio.run(main(sys.argv[1:] or [__file__])), 1))
