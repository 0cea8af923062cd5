"""What a page of docs/ shows in its console blocks happens: in one directory, from top to bottom."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)


def check_console_blocks(page: str, directory: Path) -> None:
    """Runs them below `directory`. Three dots stand for anything, and the order of lines does not matter."""
    # The command as a user types it.
    script = directory / "bin" / "proactor"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m proactor "$@"\n')
    script.chmod(0o755)
    place = directory / "place"
    place.mkdir()
    environment = {**os.environ, "PATH": f"{script.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    blocks = BLOCK.findall((DOCS / page).read_text())
    assert blocks
    for block in blocks:
        for command, expected in steps(block):
            done = subprocess.run(
                command,
                shell=True,
                cwd=place,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=60,
                check=False,
            )
            said = done.stdout.splitlines() + ([f"[{done.returncode}]"] if done.returncode else [])
            patterns = [re.escape(line).replace(re.escape("..."), ".*") for line in sorted(expected)]
            assert len(said) == len(expected), (command, said)
            for line, pattern in zip(sorted(said), patterns, strict=True):
                assert re.fullmatch(pattern, line), (command, line)


def steps(block: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines that it prints."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found
