"""One test body on GNU's `cp` and on `proactor cp`: run both on the same files, compare what they leave."""

from __future__ import annotations

import itertools
import json
import os
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seccomp import FILTER

# What the tests' sources are as old as: a copy that is younger was not given its source's times.
OLD_NS = 1_500_000_000_123_456_789
# Neither the user's locale nor their wishes for backups.
ENVIRONMENT = {"LC_ALL": "C.UTF-8"}
DEADLINE_S = 60
UNSET = ("VERSION_CONTROL", "SIMPLE_BACKUP_SUFFIX", "POSIXLY_CORRECT")

Arrange = Callable[[Path], None]


def wait_until(what: Callable[[], bool], during: subprocess.Popen[Any] | None = None) -> None:
    """Until it is so, while the process goes on."""
    deadline = time.monotonic() + DEADLINE_S
    while not what():
        assert during is None or during.poll() is None, during.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


@contextmanager
def mounted(device: Path | str, root: Path, *options: str) -> Iterator[None]:
    subprocess.run(["mount", *options, device, root], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", root], check=True)


@dataclass(frozen=True)
class Outcome:
    """What a run left and said: its lines are sorted, for no order is promised between files."""

    status: int
    stdout: list[str]
    stderr: list[str]
    tree: dict[str, dict[str, Any]] = field(repr=False)


def proactor_command(*arguments: str) -> list[str]:
    """The command as a process of its own: for what the zygote cannot show, such as signals."""
    return [sys.executable, "-m", "proactor", *arguments]


# Becomes a command under a filter.
DENY = (
    FILTER
    + """
import os, sys
number, errno, *command = sys.argv[1:]
deny(int(errno), int(number))
os.execv(command[0], command)
"""
)


def denied(number: int, error: int, *arguments: str) -> list[str]:
    """The command where a system call fails."""
    return [sys.executable, "-c", DENY, str(number), str(error), *proactor_command(*arguments)]


class Runner:
    """Runs commands by the zygote, without an interpreter's start for each.

    $PROACTOR_COMMAND names a native binary to take instead of the package's command.
    """

    def __init__(self, scratch: Path) -> None:
        self._files = {name: scratch / name for name in ("stdin", "stdout", "stderr")}
        self._proactor = os.environ.get("PROACTOR_COMMAND", "proactor")
        environment = {name: value for name, value in os.environ.items() if name not in UNSET}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("zygote.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment | ENVIRONMENT,
        )

    def proactor(self, directory: Path, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.run(directory, self._proactor, *arguments, **more)

    def run(
        self,
        directory: Path,
        *command: str,
        stdin: bytes = b"",
        umask: int = 0o022,
        user: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        for name, file in self._files.items():
            file.write_bytes(stdin if name == "stdin" else b"")
        request = {
            "command": command,
            "directory": str(directory),
            "umask": umask,
            "user": user,
            "environment": dict(environment or {}),
            **{name: str(file) for name, file in self._files.items()},
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        status = int(self._process.stdout.readline())
        said = [self._files[name].read_text(errors="surrogateescape") for name in ("stdout", "stderr")]
        return subprocess.CompletedProcess(command, status, *said)

    def close(self) -> None:
        self._process.communicate()


def outcome_of(done: subprocess.CompletedProcess[str], directory: Path) -> Outcome:
    def lines(text: str) -> list[str]:
        return sorted(text.replace("proactor cp", "cp").splitlines())

    return Outcome(done.returncode, lines(done.stdout), lines(done.stderr), snapshot(directory))


def check(found: list[Any], expected: list[Any]) -> None:
    # pytest explains the assertions of test modules only.
    assert found == expected, f"\n{found}\nis not\n{expected}"


def differences(expected: Outcome, found: Outcome) -> list[str]:
    """What is not the same in two trees, for people."""
    differ = []
    for name in sorted(expected.tree.keys() | found.tree.keys()):
        one, other = expected.tree.get(name, {}), found.tree.get(name, {})
        for key in sorted(one.keys() | other.keys()):
            # What is replaced by a rename gives its directory a new time, what is written in place does not.
            touched = key == "mtime" and other.get("type") == stat.S_IFDIR and other[key] is None
            if one.get(key) != other.get(key) and not touched:
                differ.append(f"{name}: {key} is {other.get(key)!r:.200}, not {one.get(key)!r:.200}")
    return differ


# Runs in a test


class Ours:
    """`cp(*arguments)`: `proactor cp` in the test's directory."""

    def __init__(self, runner: Runner, directory: Path, *options: str) -> None:
        self._runner, self.directory, self._options = runner, directory, options

    def __call__(
        self, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> Outcome:
        arguments = (*self._options, *arguments)
        done = self._runner.proactor(self.directory, "cp", *arguments, stdin=stdin, environment=environment)
        return outcome_of(done, self.directory)


class Same:
    """`same(arrange, *arguments)`: both commands on the same files do and say the same, which is returned.

    `arrange` makes the files, all get old times, then `after` may change them.
    """

    _runs = itertools.count(1)

    def __init__(self, runner: Runner, place: Path, *options: str) -> None:
        self._runner, self._place, self._options = runner, place, options

    def __call__(self, arrange: Arrange, *arguments: str, **more: Any) -> Outcome:
        expected, found = self.both(arrange, *arguments, **more)
        check([found.status, *found.stderr], [expected.status, *expected.stderr])
        # Ours replaces by a rename: nothing is removed first.
        check(found.stdout, [line for line in expected.stdout if not line.startswith("removed ")])
        check(differences(expected, found), [])
        return found

    def asked(self, arrange: Arrange, *arguments: str, declined: bool = False, **more: Any) -> Outcome:
        """A question that is answered with no is a failure, for GNU's cp since 9.2."""
        expected, found = self.both(arrange, *arguments, **more)
        status = 1 if declined else expected.status
        check([found.status, *found.stderr, *found.stdout], [status, *expected.stderr, *expected.stdout])
        check(differences(expected, found), [])
        return found

    def saying(self, arrange: Arrange, *arguments: str, **more: Any) -> Outcome:
        """For refusals: GNU's cp may have copied a part by then, ours need not have."""
        expected, found = self.both(arrange, *arguments, **more)
        check([found.status, *found.stderr], [expected.status, *expected.stderr])
        return found

    def both(
        self, arrange: Arrange, *arguments: str, after: Arrange | None = None, **more: Any
    ) -> tuple[Outcome, Outcome]:
        run = next(self._runs)
        gnu, ours = (self._place / f"{name}{run}" for name in ("gnu", "our"))
        for directory in (gnu, ours):
            directory.mkdir()
            arrange(directory)
            make_old(directory)
            if after is not None:
                after(directory)
        expected = self._runner.run(gnu, "cp", *arguments, **more)
        found = self._runner.proactor(ours, "cp", *self._options, *arguments, **more)
        return outcome_of(expected, gnu), outcome_of(found, ours)


# Files


def make_old(root: Path) -> None:
    """Give everything below `root` the time OLD_NS, each entry another second so that a mix-up shows."""
    below = sorted(root.rglob("*"), key=lambda path: (-len(path.parts), path))
    for number, path in enumerate(below):
        time_ns = OLD_NS + number * 1_000_000_000
        os.utime(path, ns=(time_ns, time_ns), follow_symlinks=False)


def snapshot(root: Path) -> dict[str, dict[str, Any]]:
    """Everything below `root` that a copy may keep or change; a time is None if it is this test's own."""
    groups: dict[tuple[int, int], str] = {}
    found = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        name = str(path.relative_to(root))
        entry: dict[str, Any] = {
            "type": stat.S_IFMT(info.st_mode),
            "mode": oct(stat.S_IMODE(info.st_mode)),
            "owner": (info.st_uid, info.st_gid),
            "mtime": info.st_mtime_ns if info.st_mtime_ns < OLD_NS + 10**15 else None,
        }
        if path.is_symlink():
            entry["target"] = os.readlink(path)
        elif stat.S_ISREG(info.st_mode):
            entry["content"] = content(path)
        elif stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
            entry["device"] = info.st_rdev
        if not stat.S_ISDIR(info.st_mode):
            # The first name of the inode: the same for all names of one file.
            entry["inode of"] = groups.setdefault((info.st_dev, info.st_ino), name)
        entry["xattrs"] = {
            key: os.getxattr(path, key, follow_symlinks=False)
            for key in os.listxattr(path, follow_symlinks=False)
        }
        found[name] = entry
    return found


def content(path: Path) -> tuple[int, list[tuple[int, bytes]]]:
    """A file's length and its data where it has any: holes are not data, and are seen as such."""
    parts = []
    with path.open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        end = 0
        while end < length:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError:
                break
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            parts.append((start, os.pread(file.fileno(), end - start, start)))
    return length, parts


def access_list(text: str) -> bytes:
    """A list in setfacl(1)'s words, with its mask, as the kernel takes it (linux/posix_acl_xattr.h)."""
    packed = struct.pack("<I", 2)
    for entry in text.split(","):
        kind, who, rights = entry.split(":")
        tag = {"u": 1, "g": 4, "m": 16, "o": 32}[kind] << bool(who)
        bits = sum(4 >> "rwx".index(right) for right in rights.replace("-", ""))
        packed += struct.pack("<HHI", tag, bits, int(who or 0xFFFFFFFF))
    return packed
