"""Builds the C reference servers of comparisons/servers. Knows what they are called, and measures nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import lib

SOURCES = lib.ROOT / "comparisons" / "servers"
# Programs, each with its engines.
PROGRAMS = {"lockstep": ("epoll", "ring", "bare"), "server": ("epoll", "ring")}
# Our own: crates/net/examples/lockstep.rs.
LOCKSTEP = ("--package", "proactor-net", "--example", "lockstep")
COMMAND = ("--package", "proactor", "--bin", "proactor")
PRELOAD = ("--package", "proactor-preload")
FLAGS = ("-std=gnu11", "-O2", "-pthread", "-Wall", "-Wextra", "-Werror")


def compiler() -> str | None:
    return shutil.which(os.environ.get("CC", "cc"))


def build(folder: Path) -> None:
    """Compiles each program with each engine: `lockstep-epoll` and so on in the folder."""
    cc = compiler()
    if cc is None:
        raise SystemExit("the C reference servers need a C compiler: install cc, or set CC")
    for program, engines in PROGRAMS.items():
        for engine in engines:
            sources = [str(SOURCES / f"{name}.c") for name in (program, engine)]
            binary = folder / f"{program}-{engine}"
            subprocess.run([cc, *FLAGS, "-o", str(binary), *sources], check=True)


def cargo_build(*what: str) -> Path:
    """Builds one Rust program, or one library for C, as a release, and returns where it is."""
    command = ["cargo", "build", "--release", "--quiet", *what, "--message-format", "json"]
    done = subprocess.run(command, cwd=lib.ROOT, stdout=subprocess.PIPE, text=True, check=True)
    for line in done.stdout.splitlines():
        artifact = json.loads(line)
        if artifact.get("executable"):
            return Path(artifact["executable"])
        if "cdylib" in artifact.get("target", {}).get("crate_types", ()):
            return Path(artifact["filenames"][0])
    raise RuntimeError(f"cargo has built no program of {' '.join(what)}")
