"""The files that the tests of `proactor cp` start from."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def files(root: Path) -> None:
    """`a`, `b` and `c` with contents, an `empty` file, the directories `d` and `e`, a file in `d`."""
    for name in ("a", "b", "c"):
        (root / name).write_text(f"contents of {name}\n")
    (root / "a").chmod(0o640)
    (root / "b").chmod(0o755)
    (root / "empty").touch()
    for name in ("d", "e"):
        (root / name).mkdir()
    (root / "d" / "inside").write_text("inside d\n")


def tree(root: Path) -> None:
    """`t`: directories in directories, modes, hard links, symbolic links of every kind."""
    top = root / "t"
    deep = top / "sub" / "deep"
    deep.mkdir(parents=True)
    (top / "empty").mkdir(mode=0o700)
    (top / "file").write_text("a file\n")
    (top / "file").chmod(0o644)
    (top / "script").write_text("#!/bin/sh\n")
    (top / "script").chmod(0o4755)
    (top / "sub" / "secret").write_text("secret\n")
    (top / "sub" / "secret").chmod(0o600)
    (deep / "leaf").write_text("leaf\n" * 1000)
    os.link(top / "file", top / "sub" / "hard")
    (top / "to_file").symlink_to("file")
    (top / "to_dir").symlink_to("sub")
    (top / "dangling").symlink_to("nowhere")
    (top / "sub").chmod(0o2750)
    (root / "dest").mkdir()


def links(root: Path) -> None:
    """`l` to the file `f`, `ld` to the directory `d`, `gone` to nothing, `loop` to itself."""
    (root / "f").write_text("a file\n")
    (root / "d").mkdir()
    (root / "d" / "g").write_text("g\n")
    (root / "d" / "k").symlink_to("g")
    (root / "l").symlink_to("f")
    (root / "ld").symlink_to("d")
    (root / "gone").symlink_to("nowhere")
    (root / "loop").symlink_to("loop")
    os.link(root / "f", root / "f2")
    (root / "dest").mkdir()


def special(root: Path) -> None:
    """`s`: a fifo and a socket beside a file."""
    (root / "s").mkdir()
    os.mkfifo(root / "s" / "fifo", 0o640)
    with socket.socket(socket.AF_UNIX) as unix:
        # A socket's address has 107 bytes at most: it is bound from inside.
        here = os.open(".", os.O_PATH)
        os.chdir(root / "s")
        try:
            unix.bind("socket")
        finally:
            os.fchdir(here)
            os.close(here)
    (root / "s" / "file").write_text("file\n")


def overwrite(root: Path) -> None:
    """Sources `new`, `old` and `same` and a `tree`, and a directory `into` that has them all, too."""
    (root / "into").mkdir()
    for name in ("new", "old", "same"):
        (root / name).write_text(f"{name}: the source\n")
        (root / "into" / name).write_text(f"{name}: was there, and is longer than the source\n")
        (root / "into" / name).chmod(0o600)
    (root / "tree").mkdir()
    (root / "tree" / "x").write_text("x of the source\n")
    (root / "tree" / "y").write_text("y of the source\n")
    (root / "into" / "tree").mkdir()
    (root / "into" / "tree" / "x").write_text("x was there\n")
    (root / "into" / "tree" / "z").write_text("z was there\n")
