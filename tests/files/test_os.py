"""The functions of `proactor.os` and `proactor.ospath`: the results, errors and effects of `os`'s."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from os_helpers import Plain, now, outcome, snapshot, unprivileged

NS = 1_234_567_890_123_456_789


@dataclass
class Place:
    """A tree, a descriptor of its top and one of its file."""

    root: Path
    top: int
    file: int
    other: int

    def __truediv__(self, name: str) -> str:
        return str(self.root / name)


@contextlib.contextmanager
def place(root: Path) -> Iterator[Place]:
    (root / "folder" / "deep").mkdir(parents=True)
    (root / "empty" / "hollow").mkdir(parents=True)
    (root / "file").write_bytes(b"some content of a file")
    (root / "other").write_bytes(b"")
    (root / "folder" / "leaf").write_bytes(b"leaf")
    (root / "link").symlink_to("file")
    (root / "broken").symlink_to("nothing")
    (root / "loop").symlink_to("loop")
    fds = [
        os.open(root, os.O_RDONLY | os.O_DIRECTORY),
        os.open(root / "file", os.O_RDWR),
        os.open(root / "other", os.O_RDWR),
    ]
    try:
        yield Place(root, *fds)
    finally:
        for fd in fds:
            os.close(fd)


@dataclass
class Case:
    """One call: `arguments` are made for the place, so that equal trees get equal calls."""

    name: str
    arguments: Callable[[Place], tuple[Any, ...]]
    options: Callable[[Place], dict[str, Any]] = field(default=lambda at: {})

    def __str__(self) -> str:
        return self.name


CASES = [
    Case("access", lambda at: (at / "file", os.R_OK)),
    Case("access", lambda at: ("file", os.X_OK), lambda at: {"dir_fd": at.top, "effective_ids": True}),
    Case("access", lambda at: (at / "broken", os.F_OK), lambda at: {"follow_symlinks": False}),
    Case("chmod", lambda at: (at / "file", 0o640)),
    Case("chmod", lambda at: (at.file, 0o600)),
    Case("chmod", lambda at: ("file", 0o604), lambda at: {"dir_fd": at.top}),
    Case("chown", lambda at: (at / "file", -1, os.getgid())),
    Case("chown", lambda at: ("broken", -1, -1), lambda at: {"dir_fd": at.top, "follow_symlinks": False}),
    Case("copy_file_range", lambda at: (at.file, at.other, 100, 5)),
    Case("copy_file_range", lambda at: (at.file, at.other, 4), lambda at: {"offset_dst": 3}),
    Case("fchmod", lambda at: (at.file, 0o606)),
    Case("fchown", lambda at: (at.file, -1, -1)),
    Case("fdatasync", lambda at: (at.file,)),
    Case("fpathconf", lambda at: (at.file, "PC_NAME_MAX")),
    Case("fstat", lambda at: (at.file,)),
    Case("fstatvfs", lambda at: (at.file,)),
    Case("fsync", lambda at: (at.file,)),
    Case("ftruncate", lambda at: (at.file, 3)),
    Case("getcwd", lambda at: ()),
    Case("getcwdb", lambda at: ()),
    Case("getxattr", lambda at: (at / "file", "user.none")),
    Case("lchown", lambda at: (at / "broken", -1, -1)),
    Case("link", lambda at: (at / "file", at / "name")),
    Case("link", lambda at: ("link", "name"), lambda at: {"src_dir_fd": at.top, "dst_dir_fd": at.top}),
    Case("link", lambda at: (at / "link", at / "name"), lambda at: {"follow_symlinks": False}),
    Case("listdir", lambda at: (at.root,)),
    Case("listdir", lambda at: (os.fsencode(at.root),)),
    Case("listdir", lambda at: (at.top,)),
    Case("listdir", lambda at: (at / "file",)),
    Case("listxattr", lambda at: (at / "file",)),
    Case("lstat", lambda at: (at / "link",)),
    Case("lstat", lambda at: ("broken",), lambda at: {"dir_fd": at.top}),
    Case("makedirs", lambda at: (at / "folder/x/y/z", 0o750)),
    Case("makedirs", lambda at: (at / "folder/deep",), lambda at: {"exist_ok": True}),
    Case("makedirs", lambda at: (at / "folder/deep",)),
    Case("mkdir", lambda at: (at / "new", 0o700)),
    Case("mkdir", lambda at: (b"new",), lambda at: {"dir_fd": at.top, "mode": 0o711}),
    Case("mkdir", lambda at: (at / "nothing/new",)),
    Case("mkfifo", lambda at: (at / "fifo", 0o600)),
    Case("mkfifo", lambda at: ("fifo",), lambda at: {"dir_fd": at.top}),
    Case("mknod", lambda at: (at / "node", 0o600)),
    Case("mknod", lambda at: ("node",), lambda at: {"dir_fd": at.top, "mode": 0o640, "device": 0}),
    Case("pathconf", lambda at: (at / "file", "PC_NAME_MAX")),
    Case("posix_fadvise", lambda at: (at.file, 0, 0, os.POSIX_FADV_SEQUENTIAL)),
    Case("posix_fallocate", lambda at: (at.file, 0, 50)),
    Case("readlink", lambda at: (at / "link",)),
    Case("readlink", lambda at: (b"broken",), lambda at: {"dir_fd": at.top}),
    Case("readlink", lambda at: (at / "file",)),
    Case("remove", lambda at: (at / "file",)),
    Case("remove", lambda at: ("file",), lambda at: {"dir_fd": at.top}),
    Case("remove", lambda at: (at / "folder",)),
    Case("removedirs", lambda at: (at / "empty/hollow",)),
    Case("removexattr", lambda at: (at / "file", "user.none")),
    Case("rename", lambda at: (at / "file", at / "name")),
    Case("rename", lambda at: ("file", "name"), lambda at: {"src_dir_fd": at.top, "dst_dir_fd": at.top}),
    Case("rename", lambda at: (at / "nothing", at / "name")),
    Case("renames", lambda at: (at / "empty/hollow", at / "x/y")),
    Case("replace", lambda at: (at / "file", at / "other")),
    Case("replace", lambda at: ("file", "other"), lambda at: {"src_dir_fd": at.top, "dst_dir_fd": at.top}),
    Case("rmdir", lambda at: (at / "empty/hollow",)),
    Case("rmdir", lambda at: ("empty",), lambda at: {"dir_fd": at.top}),
    Case("sendfile", lambda at: (at.other, at.file, 2, 5)),
    Case("setxattr", lambda at: (at / "loop", "user.a", b"1")),
    Case("stat", lambda at: (at.root / "file",)),
    Case("stat", lambda at: (at.file,)),
    Case("stat", lambda at: ("link",), lambda at: {"dir_fd": at.top, "follow_symlinks": False}),
    Case("stat", lambda at: (at / "loop",)),
    Case("stat", lambda at: (at / "file/below",)),
    Case("stat", lambda at: ("nul\0",)),
    Case("stat", lambda at: (1.5,)),
    Case("statvfs", lambda at: (at.root,)),
    Case("statvfs", lambda at: (at.file,)),
    Case("symlink", lambda at: ("target", at / "new")),
    Case("symlink", lambda at: (b"target", b"new"), lambda at: {"dir_fd": at.top}),
    Case("symlink", lambda at: ("target", at / "file")),
    Case("sync", lambda at: ()),
    Case("truncate", lambda at: (at / "file", 4)),
    Case("truncate", lambda at: (at.file, 100)),
    Case("truncate", lambda at: (at / "folder", 100)),
    Case("unlink", lambda at: (at / "link",)),
    Case("unlink", lambda at: ("link",), lambda at: {"dir_fd": at.top}),
    Case("utime", lambda at: (at / "file", (1, 2.5))),
    Case("utime", lambda at: (at.file,), lambda at: {"ns": (NS, NS + 1)}),
    Case(
        "utime", lambda at: ("link",), lambda at: {"ns": (1, NS), "dir_fd": at.top, "follow_symlinks": False}
    ),
    Case("utime", lambda at: (at / "file", (1, 2)), lambda at: {"ns": (1, 2)}),
]

PATH_CASES = [
    Case("exists", lambda at: (at / "link",)),
    Case("exists", lambda at: (at / "broken",)),
    Case("exists", lambda at: (at.file,)),
    Case("exists", lambda at: ("nul\0",)),
    Case("getatime", lambda at: (at / "nothing",)),
    Case("getctime", lambda at: (at / "loop",)),
    Case("getmtime", lambda at: (at / "nothing",)),
    Case("getsize", lambda at: (at / "link",)),
    Case("getsize", lambda at: (at.file,)),
    Case("isdir", lambda at: (at.root,)),
    Case("isdir", lambda at: (at / "link",)),
    Case("isfile", lambda at: (os.fsencode(at / "link"),)),
    Case("isfile", lambda at: (at.root,)),
    Case("islink", lambda at: (at / "broken",)),
    Case("islink", lambda at: (at / "file",)),
    Case("ismount", lambda at: ("/",)),
    Case("ismount", lambda at: (at.root,)),
    Case("lexists", lambda at: (at / "broken",)),
    Case("lexists", lambda at: (at / "nothing",)),
    Case("realpath", lambda at: (at / "folder/../link",)),
    Case("realpath", lambda at: (os.fsencode(at / "broken"),)),
    Case("realpath", lambda at: (at / "loop",), lambda at: {"strict": True}),
    Case("samefile", lambda at: (at / "file", at / "link")),
    Case("samefile", lambda at: (at / "file", at / "nothing")),
    Case("sameopenfile", lambda at: (at.file, at.file)),
    Case("sameopenfile", lambda at: (at.file, at.other)),
]


def coroutine_functions(module: Any) -> set[str]:
    functions = {name: getattr(module, name) for name in module.__all__}
    return {
        name
        for name, function in functions.items()
        if inspect.iscoroutinefunction(function)
        or (inspect.isbuiltin(function) and function.__module__ == "proactor._native")
    }


def test_every_coroutine_has_a_case() -> None:
    assert coroutine_functions(proactor.os) == {case.name for case in CASES}
    elsewhere = {"abspath", "relpath", "expanduser", "isjunction", "isdevdrive"}
    assert coroutine_functions(proactor.ospath) - elsewhere == {case.name for case in PATH_CASES}


def times(root: Path) -> list[tuple[int, int]]:
    """The times that `utime` has set, of the file and of the link."""
    paths = [root / name for name in ("file", "link")]
    found = [path.lstat() for path in paths if os.path.lexists(path)]
    return [(info.st_atime_ns, info.st_mtime_ns) for info in found if info.st_mtime < 1_500_000_000]


async def play(module: Any, case: Case, root: Path) -> Any:
    with place(root) as at:
        call = getattr(module, case.name)
        found = await outcome(at.root, call(*case.arguments(at), **case.options(at)))
    # The snapshot reads, which changes the times of access.
    return found, times(at.root), snapshot(at.root)


@pytest.mark.parametrize(
    ("theirs", "ours", "cases"), [(os, proactor.os, CASES), (os.path, proactor.ospath, PATH_CASES)]
)
def test_as_the_standard_library(run: Run, tmp_path: Path, theirs: Any, ours: Any, cases: list[Case]) -> None:
    async def main() -> None:
        for number, case in enumerate(cases):
            expected = await play(Plain(theirs), case, tmp_path / f"theirs-{number}")
            found = await play(ours, case, tmp_path / f"ours-{number}")
            assert (case.name, *found) == (case.name, *expected)

    run(main())


def test_times_of_a_file(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    for name in ("getatime", "getmtime", "getctime"):
        assert run(getattr(proactor.ospath, name)(path)) == getattr(os.path, name)(path)
    assert run(proactor.os.stat(path)) == path.stat()


def test_extended_attributes(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")

    async def play(module: Any) -> list[Any]:
        return [
            await outcome(tmp_path, module.setxattr(path, "user.key", b"value", os.XATTR_CREATE)),
            await outcome(tmp_path, module.setxattr(path, b"user.key", b"again", flags=os.XATTR_CREATE)),
            await outcome(tmp_path, module.listxattr(path)),
            await outcome(tmp_path, module.getxattr(path, "user.key", follow_symlinks=False)),
            await outcome(tmp_path, module.removexattr(path, "user.key")),
            await outcome(tmp_path, module.listxattr(path)),
        ]

    expected = run(play(Plain(os)))
    assert run(play(proactor.os)) == expected


def test_sendfile_to_a_socket(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"some content")
    here, there = socket.socketpair()
    with here, there, path.open("rb") as file:
        assert run(proactor.os.sendfile(here.fileno(), file.fileno(), 5, 100)) == 7
        assert there.recv(100) == b"content"


def test_permission_denied(run: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = Path(tmp_path_factory.mktemp("secret")).resolve()
    (secret / "file").write_bytes(b"")
    (secret / "file").chmod(0)
    (secret / "folder").mkdir()

    async def play(module: Any) -> list[Any]:
        calls = [
            module.listdir("folder"),
            module.stat("folder/leaf"),
            module.mkdir("folder/new"),
            module.truncate("file", 1),
            module.access("file", os.R_OK, effective_ids=True),
        ]
        return [await outcome(secret, call) for call in calls]

    before = os.open(".", os.O_RDONLY)
    try:
        os.chdir(secret)
        (secret / "folder").chmod(0)
        with unprivileged(secret, secret / "file", secret / "folder"):
            expected = run(play(Plain(os)))
            assert run(play(proactor.os)) == expected
        assert [found and found[0] for found in expected] == [PermissionError] * 4 + [False]
    finally:
        os.fchdir(before)
        os.close(before)
        (secret / "folder").chmod(0o700)


def test_what_does_not_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/some/home")
    assert now(proactor.os.getcwd()) == os.getcwd()
    assert now(proactor.os.getcwdb()) == os.getcwdb()
    assert now(proactor.ospath.abspath("a/../b")) == os.path.abspath("a/../b")
    assert now(proactor.ospath.relpath(b"/a", start=b"/b/c")) == b"../../a"
    assert now(proactor.ospath.expanduser("~/x")) == "/some/home/x"
    assert now(proactor.ospath.expanduser(b"~")) == b"/some/home"
    for path in (Path("no/~"), "\ud800", ""):
        assert now(proactor.ospath.expanduser(path)) == str(path)


@pytest.mark.parametrize("path", ["~root/x", b"~root", "~no such user", "~"])
def test_expanduser_asks_the_password_database(
    run: Run, monkeypatch: pytest.MonkeyPatch, path: str | bytes
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    assert run(proactor.ospath.expanduser(path)) == os.path.expanduser(path)


@pytest.mark.parametrize("name", ["abspath", "relpath", "expanduser", "realpath", "exists"])
def test_no_path_at_all(run: Run, name: str) -> None:
    with pytest.raises(TypeError) as theirs:
        getattr(os.path, name)(1.5)
    with pytest.raises(TypeError) as ours:
        run(getattr(proactor.ospath, name)(1.5))
    assert str(ours.value) == str(theirs.value)


def test_junctions_and_dev_drives() -> None:
    for name in ("isjunction", "isdevdrive"):
        if hasattr(os.path, name):
            assert now(getattr(proactor.ospath, name)("x")) is False


# Random programs on two equal trees

NAMES = ["a", "b", "c", "a/b", "a/b/c", "b/a", "c/.", "a/../b", "keep", ""]
ONE_PATH = {
    "mkdir": (),
    "rmdir": (),
    "unlink": (),
    "remove": (),
    "stat": (),
    "lstat": (),
    "readlink": (),
    "mkfifo": (0o600,),
    "truncate": (7,),
    "chmod": (0o755,),
    "access": (os.W_OK,),
    "listdir": (),
    "makedirs": (),
    "removedirs": (),
}
TWO_PATHS = ["rename", "replace", "renames", "link", "symlink"]
WITH_DIR_FD = {"mkdir", "rmdir", "unlink", "remove", "stat", "lstat", "readlink", "mkfifo", "chmod", "access"}
OF_OSPATH = ["exists", "lexists", "isfile", "isdir", "islink", "ismount", "getsize", "realpath"]

Step = tuple[str, str, str]

names = st.sampled_from(NAMES)
steps = st.one_of(
    st.tuples(st.sampled_from([*ONE_PATH, *OF_OSPATH]), names, st.sampled_from(["str", "bytes", "dir_fd"])),
    st.tuples(st.sampled_from(TWO_PATHS), names, names),
)


async def program(base: Path, script: list[Step], os_like: Any, path_like: Any) -> Any:
    root = base / "tree"
    os.makedirs(root)
    (base / "keep").write_bytes(b"")  # `removedirs` goes no further
    (root / "keep").write_bytes(b"0123456789")
    top = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    results = []
    try:
        for name, first, second in script:
            module = path_like if name in OF_OSPATH else os_like
            arguments: tuple[Any, ...]
            options = {}
            if name in TWO_PATHS:
                arguments = (f"{root}/{first}", f"{root}/{second}")
            elif second == "dir_fd" and name in WITH_DIR_FD:
                arguments, options = (first, *ONE_PATH[name]), {"dir_fd": top}
            else:
                path = f"{root}/{first}"
                arguments = (path if second == "str" else os.fsencode(path), *ONE_PATH.get(name, ()))
            results.append(await outcome(base, getattr(module, name)(*arguments, **options)))
    finally:
        os.close(top)
    # A link and `..` may lead out of the tree.
    return results, snapshot(base)


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(script=st.lists(steps, min_size=4, max_size=25))
def test_random_programs(tmp_path_factory: pytest.TempPathFactory, script: list[Step]) -> None:
    tmp = tmp_path_factory.mktemp("trees")

    async def main() -> None:
        expected = await program(tmp / "theirs", script, Plain(os), Plain(os.path))
        assert await program(tmp / "ours", script, proactor.os, proactor.ospath) == expected

    asyncio.run(main())
