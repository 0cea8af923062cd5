"""The comparison of programs in Rust runs at smoke size, and ours are what a user should write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import rust_programs
from test_comparisons import smoke


@pytest.mark.needs("O_DIRECT")
def test_programs_in_rust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ours run, and a library that cannot be built says why."""
    cargo = tmp_path / "cargo"
    cargo.write_text("#!/bin/sh\necho 'error: no network' >&2\nexit 101\n")
    cargo.chmod(0o755)
    monkeypatch.setenv("CARGO", str(cargo))
    arguments = ["--dir", str(tmp_path), "--profile", "testing", "--no-counts"]
    text, data = smoke(tmp_path, "rust_programs.py", *arguments)
    assert data["missing"] == dict.fromkeys(("compio", "tokio", "bare io-uring"), "error: no network")
    assert "compio is not there: error: no network." in text
    assert set(data["programs"]) == set(rust_programs.PROGRAMS)
    for found in data["programs"].values():
        assert found["proactor"]["timed"][0]["wall_s"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cargo", "result.json"]


def test_programs_in_rust_are_what_a_user_should_write() -> None:
    for cell in rust_programs.cells(list(rust_programs.LIBRARIES)):
        assert 15 <= rust_programs.lines_of_code(cell.source()) < 100
        if cell.library == rust_programs.OURS:
            text = cell.source().read_text()
            assert not re.search(r"unreachable!|EINTR|Interrupted|CString|unsafe", text), cell


def test_programs_in_rust_have_to_do_the_same() -> None:
    said = {rust_programs.Cell("log_writer", library): "1 byte" for library in rust_programs.LIBRARIES}
    rust_programs.check(said)
    said[rust_programs.Cell("log_writer", "tokio")] = "2 bytes"
    with pytest.raises(RuntimeError, match="log_writer is not the same work for all"):
        rust_programs.check(said)
