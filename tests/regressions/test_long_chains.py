"""Long chains of objects, each of which is the only one to know the next.

Users saw a chain of 50,000 ops, linked by `user_data`, overflow the C stack when it was freed.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import gc, sys
from proactor import aio

link = {
    "user_data": lambda last: aio.Read(0, 1, 0, user_data=last),
    "in a list": lambda last: aio.Fsync(0, user_data=[last]),
    "of several kinds": lambda last: aio.Write(0, b"x", 0, user_data=aio.Poll(0, 1, user_data=last)),
}[sys.argv[1]]
last = None
for _ in range(50_000):
    last = link(last)
if sys.argv[2] == "circle":
    first = aio.Fsync(0, user_data=last)
    circle = [first]
    first.user_data = [circle, last]
    circle.append(circle)
    del first, circle
del last
gc.collect()
print("freed")
"""


@pytest.mark.parametrize("kind", ["user_data", "in a list", "of several kinds"])
@pytest.mark.parametrize("shape", ["chain", "circle"])
def test_a_long_chain_is_freed(kind: str, shape: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, kind, shape], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "freed\n"), done.stderr[-500:]
