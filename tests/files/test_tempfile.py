"""Temporary files and directories: what `tempfile` does too, on it and on ours."""

# ruff: noqa: ASYNC240 (what they look at is on the disk)

from __future__ import annotations

import asyncio
import inspect
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from os_helpers import unprivileged
from synchronous import TEMPFILE

# `delete` of directories, `delete_on_close`, and no error for a file that is gone at its close.
SINCE_3_12 = sys.version_info >= (3, 12)


@pytest.fixture(params=["tempfile", "proactor"])
def temporary(request: pytest.FixtureRequest) -> Any:
    """The standard library's functions, and ours."""
    return TEMPFILE if request.param == "tempfile" else proactor.tempfile


@pytest.fixture(params=["tempfile", "proactor"] if SINCE_3_12 else ["proactor"])
def temporary_of_3_12(request: pytest.FixtureRequest) -> Any:
    return TEMPFILE if request.param == "tempfile" else proactor.tempfile


FILES = ["TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile"]
# Each kind on both. Before Python 3.11 a spooled file was not a whole file.
ON_BOTH = [
    pytest.param(library, kind, id=f"{name}-{kind}")
    for name, library in (("tempfile", TEMPFILE), ("proactor", proactor.tempfile))
    for kind in FILES
    if library is proactor.tempfile or kind in FILES[:2] or sys.version_info >= (3, 11)
]


@pytest.mark.parametrize(("temporary", "kind"), ON_BOTH)
def test_what_is_written_is_read(run: Run, temporary: Any, tmp_path: Path, kind: str) -> None:
    async def check(mode: str, lines: list[Any], encoding: str | None) -> None:
        async with getattr(temporary, kind)(mode=mode, encoding=encoding, dir=tmp_path) as file:
            assert await file.write(lines[0]) == len(lines[0])
            await file.writelines(lines[1:])
            if mode != "wb":
                await file.seek(0)
                assert [line async for line in file] == lines
                await file.seek(0)
                assert await file.read(5) == lines[0] + lines[1][:1]
            end = await file.seek(0, 2)
            assert end == await file.tell() == len("one\nzwei é\nthree".encode())
            await file.truncate(3)
            assert not file.closed
        assert file.closed
        with pytest.raises(ValueError, match="closed file"):
            await file.write(lines[0])
        assert os.listdir(tmp_path) == []

    async def main() -> None:
        lines = ["one\n", "zwei é\n", "three"]
        for mode in ("w+", "a+", "r+", "x+"):
            await check(mode, lines, "utf-8")
        for mode in ("w+b", "r+b", "rb+", "wb"):
            await check(mode, [line.encode() for line in lines], None)

    run(main())


@pytest.mark.parametrize(("temporary", "kind"), ON_BOTH)
def test_attributes(run: Run, temporary: Any, tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        file = await getattr(temporary, kind)(
            mode="w+", encoding="latin-1", errors="replace", newline="\r\n", dir=tmp_path
        )
        assert file.encoding.replace("iso8859-1", "latin-1") == "latin-1"
        assert (file.errors, file.newlines) == ("replace", None)
        assert (file.mode, file.readable(), file.writable(), file.seekable()) == ("w+", True, True, True)
        assert not file.isatty()
        await file.write("ä☃\n")
        await file.flush()
        if kind == "NamedTemporaryFile":
            assert Path(file.name).read_bytes() == b"\xe4?\r\n"
            assert isinstance(file.fileno(), int)
        elif kind == "TemporaryFile":
            assert file.name == file.fileno()
        else:
            assert file.name is None
        await file.close()
        await file.close()
        assert file.closed

    run(main())


def test_a_file_without_a_name(run: Run, temporary: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with temporary.TemporaryFile(dir=tmp_path) as file:
            assert os.fstat(file.fileno()).st_nlink == 0
            assert not os.get_inheritable(file.fileno())
            assert file.mode == "rb+"
            assert os.listdir(tmp_path) == []

    run(main())


def test_a_named_file(run: Run, temporary: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with temporary.NamedTemporaryFile(suffix=".end", prefix="start.", dir=tmp_path) as file:
            path = Path(file.name)
            assert path.parent == tmp_path
            assert path.name.startswith("start.")
            assert path.name.endswith(".end")
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert file.file.name == file.name
        assert not path.exists()
        file = await temporary.NamedTemporaryFile(dir=tmp_path)
        async with file as entered:
            assert entered.name == file.name
            await file.close()
            assert os.listdir(tmp_path) == []
        file = await temporary.NamedTemporaryFile(dir=tmp_path, delete=False)
        async with file:
            pass
        assert os.listdir(tmp_path) == [os.path.basename(file.name)]

    run(main())


def test_deleted_at_the_end_of_the_context(run: Run, temporary_of_3_12: Any, tmp_path: Path) -> None:
    make = temporary_of_3_12.NamedTemporaryFile

    async def main() -> None:
        async with make(dir=tmp_path, delete_on_close=False) as file:
            await file.write(b"kept")
            await file.close()
            assert Path(file.name).read_bytes() == b"kept"
        assert os.listdir(tmp_path) == []
        file = await make(dir=tmp_path, delete_on_close=False)
        await file.close()
        assert len(os.listdir(tmp_path)) == 1
        # Closed, so nobody is warned.
        del file
        assert os.listdir(tmp_path) == []

    run(main())


def test_somebody_else_has_deleted_it(run: Run, temporary_of_3_12: Any, tmp_path: Path) -> None:
    async def main() -> None:
        async with temporary_of_3_12.NamedTemporaryFile(dir=tmp_path) as file:
            os.unlink(file.name)
        async with temporary_of_3_12.TemporaryDirectory(dir=tmp_path) as name:
            os.rmdir(name)

    run(main())


@pytest.mark.parametrize("kind", ["NamedTemporaryFile", "TemporaryDirectory", "mkstemp", "mkdtemp"])
def test_names(run: Run, temporary: Any, tmp_path: Path, kind: str) -> None:
    async def name_of(**options: Any) -> Any:
        made = await getattr(temporary, kind)(**options)
        if kind == "mkstemp":
            os.close(made[0])
            os.unlink(made[1])
            return made[1]
        if kind == "mkdtemp":
            os.rmdir(made)
            return made
        async with made:
            return made.name

    async def main() -> None:
        folder = str(tmp_path)
        for some in ({}, {"suffix": ".é"}, {"prefix": "p"}, {"prefix": "p", "suffix": "s"}):
            name = await name_of(dir=tmp_path, **some)
            head, tail = os.path.split(name)
            assert head == folder
            assert tail.startswith(some.get("prefix", tempfile.gettempprefix()))
            assert tail.endswith(some.get("suffix", ""))
            in_bytes = {key: os.fsencode(value) for key, value in some.items()}
            name = await name_of(dir=os.fsencode(folder), **in_bytes)
            assert os.path.split(name)[0] == os.fsencode(folder)
            assert name.endswith(in_bytes.get("suffix", b""))
        assert os.path.dirname(await name_of()) == tempfile.gettempdir()
        assert os.path.dirname(await name_of(suffix=b"s")) == tempfile.gettempdirb()
        with pytest.raises(TypeError):
            await name_of(prefix="p", suffix=b"s")
        assert os.listdir(tmp_path) == []

    run(main())


@pytest.mark.parametrize("kind", [*FILES[:2], "TemporaryDirectory", "mkstemp", "mkdtemp"])
def test_a_folder_that_is_missing(run: Run, temporary: Any, tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        with pytest.raises(FileNotFoundError) as caught:
            await getattr(temporary, kind)(dir=tmp_path / "missing")
        assert str(caught.value.filename).startswith(str(tmp_path / "missing"))

    run(main())


@pytest.mark.parametrize(("temporary", "kind"), ON_BOTH)
def test_bad_arguments(run: Run, temporary: Any, tmp_path: Path, kind: str) -> None:
    bad: list[dict[str, Any]] = [
        {"mode": "q"},
        {"mode": "rw"},
        {"mode": "wb", "encoding": "utf-8"},
        {"mode": "w", "buffering": 0},
    ]

    async def main() -> None:
        for wrong in bad:
            with pytest.raises(ValueError, match=r"mode|binary|text"):  # noqa: PT012
                async with getattr(temporary, kind)(dir=tmp_path, **wrong) as file:
                    # Until then the standard library's spooled file has not looked.
                    if temporary is TEMPFILE and kind == "SpooledTemporaryFile":
                        await file.rollover()
        assert os.listdir(tmp_path) == []

    run(main())


def test_an_exception_goes_through(run: Run, temporary: Any, tmp_path: Path) -> None:
    async def main() -> None:
        for kind in (*FILES, "TemporaryDirectory"):
            with pytest.raises(ZeroDivisionError):
                async with getattr(temporary, kind)(dir=tmp_path):
                    raise ZeroDivisionError
        assert os.listdir(tmp_path) == []

    run(main())


def test_a_directory(run: Run, temporary: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()

    async def main() -> None:
        async with temporary.TemporaryDirectory(suffix=".d", dir=tmp_path) as name:
            assert stat.S_IMODE(os.stat(name).st_mode) == 0o700
            inner = Path(name, "a", "b")
            inner.mkdir(parents=True)
            (inner / "file").write_text("text")
            (inner / "link").symlink_to(elsewhere)
        assert os.listdir(tmp_path) == ["elsewhere"]
        directory = await temporary.TemporaryDirectory(dir=tmp_path)
        Path(directory.name, "file").touch()
        async with directory as name:
            assert name == directory.name
            await directory.cleanup()
            assert not os.path.exists(name)
        assert os.listdir(elsewhere) == ["file"]

    run(main())


def test_a_directory_that_stays(run: Run, temporary_of_3_12: Any, tmp_path: Path) -> None:
    async def main() -> None:
        directory = await temporary_of_3_12.TemporaryDirectory(dir=tmp_path, delete=False)
        async with directory as name:
            Path(name, "file").touch()
        assert os.listdir(name) == ["file"]
        await directory.cleanup()
        assert os.listdir(tmp_path) == []

    run(main())


def test_a_directory_that_cannot_be_removed(
    run: Run, temporary: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rmdir = os.rmdir

    def refuse(path: Any, *arguments: Any, **options: Any) -> None:
        if os.path.basename(path) == "stuck":
            raise OSError(16, "busy", path)
        rmdir(path, *arguments, **options)

    async def main() -> None:
        for ignore in (False, True):
            directory = await temporary.TemporaryDirectory(dir=tmp_path, ignore_cleanup_errors=ignore)
            Path(directory.name, "stuck").mkdir()
            Path(directory.name, "file").touch()
            with monkeypatch.context() as patch:
                patch.setattr(os, "rmdir", refuse)
                if ignore:
                    await directory.cleanup()
                else:
                    with pytest.raises(OSError, match="busy"):
                        await directory.cleanup()
            assert "stuck" in os.listdir(directory.name)
            await directory.cleanup()
        assert os.listdir(tmp_path) == []

    run(main())


def test_a_directory_that_its_owner_may_not_change(
    run: Run, temporary: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guarded(remove: Any) -> Any:
        """Root, too, is refused."""

        def call(path: Any, *, dir_fd: int | None = None) -> None:
            folder = os.stat(os.path.dirname(path)) if dir_fd is None else os.fstat(dir_fd)
            if not folder.st_mode & stat.S_IWUSR:
                raise PermissionError(13, "Permission denied", path)
            remove(path, dir_fd=dir_fd)

        return call

    async def main() -> None:
        async with temporary.TemporaryDirectory(dir=tmp_path) as name:
            inner = Path(name, "inner", "more")
            inner.mkdir(parents=True)
            (inner / "file").touch()
            inner.chmod(0o500)
            inner.parent.chmod(0o500)
            monkeypatch.setattr(os, "unlink", guarded(os.unlink))
            monkeypatch.setattr(os, "rmdir", guarded(os.rmdir))
        assert os.listdir(tmp_path) == []

    run(main())


def test_directories_that_nobody_may_list_go_as_well(run: Run, temporary: Any) -> None:
    async def main() -> None:
        # pytest's own are root's alone.
        with tempfile.TemporaryDirectory() as place, unprivileged(Path(place)):
            async with temporary.TemporaryDirectory(dir=place) as name:
                inner = Path(name, "inner", "more")
                inner.mkdir(parents=True)
                (inner / "file").touch()
                (inner.parent / "link").symlink_to(place)
                inner.chmod(0)
                inner.parent.chmod(0)
            assert os.listdir(place) == []

    run(main())


def test_relative_names_become_absolute(
    run: Run, temporary_of_3_12: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        async with temporary_of_3_12.TemporaryDirectory(dir=".") as name:
            assert os.path.dirname(name) == str(tmp_path)
        async with temporary_of_3_12.NamedTemporaryFile(dir=".") as file:
            assert os.path.dirname(file.name) == str(tmp_path)
            monkeypatch.chdir("/")
        assert os.listdir(tmp_path) == []

    run(main())


def test_descriptors_and_names_only(run: Run, temporary: Any, tmp_path: Path) -> None:
    async def main() -> None:
        fd, name = await temporary.mkstemp(".end", "start.", tmp_path, True)
        os.write(fd, b"data")
        os.close(fd)
        assert Path(name).read_bytes() == b"data"
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o600
        folder = await temporary.mkdtemp(dir=tmp_path)
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, (folder, name)))

    run(main())


def test_where_and_how(run: Run) -> None:
    async def main() -> None:
        assert await proactor.tempfile.gettempdir() == tempfile.gettempdir()
        assert await proactor.tempfile.gettempdirb() == tempfile.gettempdirb()

    run(main())
    assert proactor.tempfile.gettempprefix() == tempfile.gettempprefix()
    assert proactor.tempfile.gettempprefixb() == tempfile.gettempprefixb()


def test_signatures() -> None:
    """All arguments in the standard library's order, with its defaults."""
    for name in (*FILES, "TemporaryDirectory", "mkstemp", "mkdtemp"):
        theirs = inspect.signature(getattr(tempfile, name)).parameters.values()
        ours = inspect.signature(getattr(proactor.tempfile, name)).parameters
        assert [(p.name, p.kind, p.default) for p in theirs] == [
            (ours[p.name].name, ours[p.name].kind, ours[p.name].default) for p in theirs
        ]
        positional = [p.name for p in ours.values() if p.kind is not p.KEYWORD_ONLY]
        assert positional == [p.name for p in theirs if p.kind is not p.KEYWORD_ONLY]


def test_on_each_engine(run: Run, engine: str, tmp_path: Path) -> None:
    async def main() -> None:
        for make in (
            proactor.tempfile.TemporaryFile,
            proactor.tempfile.NamedTemporaryFile,
            proactor.tempfile.SpooledTemporaryFile,
        ):
            async with make(dir=tmp_path, engine=engine) as file:
                await file.write(b"x" * 100_000)
                await file.seek(99_998)
                assert await file.read() == b"xx"
            with pytest.raises(ValueError, match="no such"):
                make(engine="no such")
        assert os.listdir(tmp_path) == []

    run(main())


def test_as_a_task_or_under_a_timeout(run: Run, tmp_path: Path) -> None:
    async def main() -> None:
        file = await asyncio.create_task(proactor.tempfile.TemporaryFile(dir=tmp_path))
        await file.close()
        text = await asyncio.wait_for(proactor.tempfile.NamedTemporaryFile("w", dir=tmp_path), 30)
        await text.close()
        with pytest.raises(RuntimeError, match="reuse"):
            await twice(proactor.tempfile.TemporaryFile(dir=tmp_path))
        assert os.listdir(tmp_path) == []

    async def twice(making: Any) -> None:
        async with making:
            await making

    run(main())


def test_a_default_encoding_is_warned_of_where_it_is_used() -> None:
    code = "from proactor import tempfile; tempfile.TemporaryFile('w').close()"
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stderr.startswith("<string>:1: EncodingWarning")


def test_names_of_the_module() -> None:
    # `mktemp` is unsafe; the others are the standard library's settings, which ours obeys.
    assert set(tempfile.__all__) - set(proactor.tempfile.__all__) == {"TMP_MAX", "mktemp", "tempdir"}
    assert all(hasattr(proactor.tempfile, name) for name in proactor.tempfile.__all__)


def test_the_setting_of_the_standard_library(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def main() -> None:
        assert await proactor.tempfile.gettempdir() == str(tmp_path)
        async with proactor.tempfile.NamedTemporaryFile() as file:
            assert os.path.dirname(file.name) == str(tmp_path)

    run(main())


@pytest.mark.parametrize("name", ["TemporaryFile", "NamedTemporaryFile", "TemporaryDirectory"])
def test_a_descriptor_is_no_directory(run: Run, tmp_path: Path, name: str) -> None:
    """It is somebody's: it is not taken over, nor closed."""
    fd = os.open(tmp_path, os.O_RDONLY)

    async def main() -> None:
        with pytest.raises(TypeError, match="not int"):
            await getattr(proactor.tempfile, name)(dir=fd)

    run(main())
    os.close(fd)
