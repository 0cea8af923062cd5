"""Builds programs on other libraries: the echo servers in comparisons/servers/peers, or another workspace's.

What cannot be built says why.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import lib

WORKSPACE = lib.ROOT / "comparisons" / "servers" / "peers"
TARGET = lib.ROOT / "target" / "peers"
NAMES = ("mio", "monoio", "compio")
TIMEOUT_S = 900


@dataclass
class Built:
    """`programs`: by name where they are; `missing`: by name why there is none."""

    programs: dict[str, Path] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)


def versions(workspace: Path = WORKSPACE, names: Sequence[str] = NAMES) -> dict[str, str]:
    """Of the libraries, as the lock file has them."""
    lock = (workspace / "Cargo.lock").read_text()
    found = dict(re.findall(r'^name = "([\w-]+)"\nversion = "([^"]+)"', lock, re.MULTILINE))
    return {name: found[name] for name in names}


def build(
    cargo: str = os.environ.get("CARGO", "cargo"),
    *,
    workspace: Path = WORKSPACE,
    target: Path = TARGET,
    names: Sequence[str] = NAMES,
) -> Built:
    """Each by itself, so that one that fails takes no other with it."""
    built = Built()
    for name in names:
        command = [cargo, "build", "--release", "--locked", "--quiet"]
        command += ["--manifest-path", str(workspace / "Cargo.toml"), "--target-dir", str(target)]
        command += ["--features", name, "--bin", name]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            built.missing[name] = str(error)
            continue
        if done.returncode == 0:
            built.programs[name] = target / "release" / name
        else:
            said = [line for line in done.stderr.splitlines() if line.strip()]
            built.missing[name] = said[0] if said else f"cargo exited with {done.returncode}"
    return built
