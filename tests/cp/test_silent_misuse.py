"""Options and streams whose effect was missing without a word.

Users saw status 0 where nothing was copied (`--include='dir/***'`), nothing was left out (a list with CRLF),
lines were lost (`-v` to a closed stdout) or blocks were not shared (`--reflink=always` without a size).
"""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest
from cp_helpers import Ours, proactor_command

pytest_plugins = ["cp_fixtures"]


def names_below(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@pytest.fixture
def foo(tmp_path: Path) -> Path:
    (tmp_path / "src" / "foo" / "bar").mkdir(parents=True)
    (tmp_path / "src" / "other").mkdir()
    for name in ("foo/a", "foo/bar/b", "other/c"):
        (tmp_path / "src" / name).touch()
    return tmp_path


@pytest.mark.parametrize("pattern", ["foo/***", "/foo/***"])
def test_a_directory_and_all_below_it(cp: Ours, foo: Path, pattern: str) -> None:
    outcome = cp("-r", f"--include={pattern}", "--exclude=*", "src/.", "t")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert names_below(foo / "t") == {"foo", "foo/a", "foo/bar", "foo/bar/b"}


def test_the_source_may_be_that_directory(cp: Ours, foo: Path) -> None:
    assert cp("-r", "--include=foo/***", "--exclude=*", "src/foo", "t").status == 0
    assert names_below(foo / "t") == {"a", "bar", "bar/b"}


def test_a_slash_in_brackets(cp: Ours) -> None:
    outcome = cp("-r", "--exclude=[/U]", "src", "t")
    assert outcome.status == 1
    assert any("never a slash" in line for line in outcome.stderr)


@pytest.mark.parametrize("list_", [b"a\r\n# none\r\n\r\nb\r\n", b"a\nb", b"a\r\nb"])
def test_ends_of_lines(cp: Ours, tmp_path: Path, list_: bytes) -> None:
    (tmp_path / "src").mkdir()
    for name in ("a", "b", "c"):
        (tmp_path / "src" / name).touch()
    (tmp_path / "list").write_bytes(list_)
    assert cp("-r", "--exclude-from=list", "src", "t").status == 0
    assert names_below(tmp_path / "t") == {"c"}


@pytest.mark.parametrize("arguments", [["cp", "-v", "a", "b"], ["cp", "--json", "a", "b"], ["cp", "--help"]])
def test_a_closed_stdout(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "a").write_text("contents")
    done = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *proactor_command(*arguments)],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Bad file descriptor" in done.stderr
    if (tmp_path / "b").exists():
        assert (tmp_path / "b").read_text() == "contents", "what was said is in no file"


def test_a_reader_that_has_gone(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            proactor_command("cp", "-v", "a", "b"),
            cwd=tmp_path,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, "proactor cp: write error: Broken pipe\n")
    assert (tmp_path / "b").exists()


def test_blocks_of_a_file_without_a_size(cp: Ours, tmp_path: Path) -> None:
    outcome = cp("--reflink=always", "/proc/version", "new")
    assert outcome.status == 1
    assert outcome.stderr[0].startswith("cp: failed to clone 'new' from '/proc/version': ")
    assert "new" not in outcome.tree


def test_blocks_of_a_fifo(cp: Ours, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")

    def write() -> None:
        with (tmp_path / "fifo").open("wb") as fifo:
            fifo.write(b"bytes")

    writer = threading.Thread(target=write)
    writer.start()
    outcome = cp("--reflink=always", "fifo", "new")
    writer.join()
    assert (outcome.status, "new" in outcome.tree) == (1, False)
