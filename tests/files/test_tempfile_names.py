"""Temporary files: which names are tried, and what is done where there are no nameless files."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import proactor
import pytest
from conftest import Run
from proactor import _native, _temporary
from synchronous import TEMPFILE


@pytest.fixture(params=["tempfile", "proactor"])
def temporary(request: pytest.FixtureRequest) -> Any:
    """The standard library's functions, and ours."""
    return TEMPFILE if request.param == "tempfile" else proactor.tempfile


@pytest.mark.parametrize("kind", ["NamedTemporaryFile", "mkstemp"])
def test_a_name_that_is_taken(
    run: Run, temporary: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Another one is tried, as often as TMP_MAX says; somebody else's file stays as it is."""

    async def main() -> None:
        (tmp_path / "tmptaken").write_text("theirs")
        names = ["taken", "taken", "free", "taken", "taken", "taken"]
        monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: iter(names))
        made: Any = await getattr(temporary, kind)(dir=tmp_path)
        assert (made[1] if kind == "mkstemp" else made.name) == str(tmp_path / "tmpfree")
        if kind == "mkstemp":
            os.close(made[0])
        else:
            await made.close()
        monkeypatch.setattr(tempfile, "TMP_MAX", 2)
        with pytest.raises(FileExistsError, match="No usable temporary file name"):
            await getattr(temporary, kind)(dir=tmp_path)
        assert (tmp_path / "tmptaken").read_text() == "theirs"

    run(main())


def test_where_no_file_can_be_without_a_name(run: Run, temporary: Any) -> None:
    """The file systems that lack O_TMPFILE, and what the errors are then."""

    async def main() -> None:
        for folder in ("/proc/self", "/dev/null", "/proc/version"):
            for kind in ("TemporaryFile", "NamedTemporaryFile"):
                with pytest.raises(OSError, match=folder):
                    await getattr(temporary, kind)(dir=folder)

    run(main())


def test_a_file_system_without_nameless_files(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways = []

    def refuse(path: Any, how: Any, *, engine: str | None) -> Any:
        ways.append(how)
        # Where O_TMPFILE cannot be.
        return _native.create_file("/proc/self" if how == "nameless" else path, how, engine=engine)

    monkeypatch.setattr(_temporary, "create_file", refuse)

    async def main() -> None:
        async with proactor.tempfile.TemporaryFile("w+", dir=tmp_path, encoding="ascii") as file:
            await file.write("text")
            assert os.listdir(tmp_path) == []
            assert os.fstat(file.fileno()).st_nlink == 0
            await file.seek(0)
            assert await file.read() == "text"

    run(main())
    assert ways == ["nameless", "unlinked"]
