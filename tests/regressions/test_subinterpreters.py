"""A second interpreter of the process could import proactor. Its first use raised an error that named
nothing, and a later one crashed.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

USE = '''
import sys
sys.path[:] = {path!r}
try:
    import asyncio, proactor
    asyncio.run(proactor.os.stat("/"))
    print("used", flush=True)
except ImportError as error:
    print(error, flush=True)
'''.format(path=sys.path)

def in_another():
    newer = sys.version_info >= (3, 13)
    new = interpreters.create("legacy") if newer else interpreters.create(isolated=False)
    failed = interpreters.run_string(new, USE)
    if failed:
        print(failed, flush=True)
    interpreters.destroy(new)

FIRST
in_another()
in_another()
"""

REFUSED = "proactor is used by another interpreter of this process already, and supports one"


@pytest.mark.parametrize("first", ["exec(USE)", "in_another()"])
def test_only_the_first_interpreter_has_it(first: str) -> None:
    program = PROGRAM.replace("FIRST", first)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines() == ["used", REFUSED, REFUSED], done.stderr
    assert done.returncode == 0
