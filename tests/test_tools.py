"""The repository's own rules hold, and the tools that check them would notice if they did not."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import licences
import pytest
import release_check
import test_parts
import tidy

ROOT = Path(__file__).parent.parent


def test_repository_is_tidy() -> None:
    assert tidy.problems(ROOT) == []


@pytest.mark.parametrize(
    ("file", "source", "problem"),
    [
        ("backend/uring/ring.rs", "use crate::backend::threads::Pool;", "backend::threads"),
        ("backend/uring/mod.rs", "use super::{helper, sim::{Fault, Seed}};", "backend::sim"),
        ("backend/threads.rs", "fn f() { super::uring::go() }", "backend::uring"),
        ("op/mod.rs", "use crate::{buffer::Buffer, backend::Backend};", "backend"),
        ("sys/mod.rs", "use crate::driver::Driver;", "driver"),
        ("backend/uring/mod.rs", "// unlike crate::backend::threads\nuse super::{helper, Backend};", None),
        ("backend/threads/mod.rs", "mod threads_of_ours; use super::helper::pool;", None),
    ],
)
def test_walls(tmp_path: Path, file: str, source: str, problem: str | None) -> None:
    path = tmp_path / tidy.ENGINE / file
    path.parent.mkdir(parents=True)
    path.write_text(source)
    found = list(tidy.walls_in_crates(tmp_path, [tidy.ENGINE + file]))
    expected = [] if problem is None else [f"{tidy.ENGINE}{file}: must not know {problem} (ARCHITECTURE.md)"]
    assert found == expected


def test_a_result_is_a_summary(tmp_path: Path) -> None:
    path = f"{tidy.RESULTS}2026-01-01-vm-lines.json"
    (tmp_path / path).parent.mkdir(parents=True)
    (tmp_path / path).write_text("\n" * tidy.MAX_RESULT_LINES)
    assert not list(tidy.results(tmp_path, [path]))
    (tmp_path / path).write_text("\n" * (tidy.MAX_RESULT_LINES + 1))
    (problem,) = tidy.results(tmp_path, [path])
    assert problem.startswith(f"{path}: 301 lines; keep a summary")


def test_local_names_and_lengths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tidy, "LONG", {})
    place = "/".join(["", "home", "someone"])
    (tmp_path / "a.md").write_text(f"see {place}\n" + "\n" * tidy.MAX_LINES)
    assert [problem.split(":")[:2] for problem in tidy.local_names(tmp_path, ["a.md"])] == [["a.md", "1"]]
    assert [problem.split(";")[0] for problem in tidy.lengths(tmp_path, ["a.md"])] == ["a.md: 501 lines"]
    monkeypatch.setattr(tidy, "GENERATED", ("a.md",))
    assert not list(tidy.lengths(tmp_path, ["a.md"]))


@pytest.mark.parametrize(
    "line",
    [
        "let bytes = Vec::with_capacity(size);",
        "let bytes = Vec::<u8>::with_capacity(file.size() as usize);",
        "let bytes = vec![0; self.left.min(MOST)];",
        "bytes.reserve(count);",
        "bytes.reserve_exact(self.size());",
        "bytes.resize(count, 0);",
        "bytes.extend_from_slice(&more);",
        "let copy = bytes[start..].to_vec();",
        "PyBytes::new(py, &read.data)",
        "AlignedBuf::zeroed(len, 4096)",
        "let names: Vec<_> = names.map(|name| name.len()).collect();",
        "let all = each.collect::<io::Result<Vec<OwnedFd>>>()?;",
        "let path = CString::new(path)?;",
        "let copy = with(path, CStr::to_owned);",
        "bytes.extend(more.iter().flatten());",
    ],
)
def test_memory_of_any_size_is_reserved_fallibly(line: str) -> None:
    assert len(list(tidy.allocations("a.rs", line))) == 1
    assert not list(tidy.allocations("a.rs", f"// allocates: at most MOST bytes\n{line}"))
    assert not list(tidy.allocations("a.rs", f"{line} // allocates: at most MOST bytes"))
    # A reason is not missing, and not a line further up.
    assert list(tidy.allocations("a.rs", f"// allocates:\n{line}"))
    assert list(tidy.allocations("a.rs", f"// allocates: some\n\n{line}"))
    # A module of tests may allocate, and what comes after it may not.
    tests = f"#[cfg(test)]\nmod tests {{\n    {line}\n}}\n"
    assert not list(tidy.allocations("a.rs", tests))
    assert [found.split(":")[1] for found in tidy.allocations("a.rs", f"{tests}{line}")] == ["5"]
    inner = f"mod inner {{\n    #[cfg(test)]\n    mod tests {{\n        {line}\n    }}\n    {line}\n}}\n"
    assert [found.split(":")[1] for found in tidy.allocations("a.rs", inner)] == ["6"]


@pytest.mark.parametrize(
    "line",
    [
        "bytes.try_reserve(count)?;",
        "let bytes = Vec::with_capacity(8);",
        "let bytes = vec![0u8; CHUNK_BYTES + 1];",
        "// bytes.resize(count, 0);",
        'PyBytes::new(py, b"/")',
        "let done = this.collect()?;",
        "let bytes = vec![\n    0u8;\n    CHUNK_BYTES\n];",
    ],
)
def test_constant_and_fallible_sizes_are_fine(line: str) -> None:
    assert not list(tidy.allocations("a.rs", line))


def test_a_call_over_several_lines_is_seen() -> None:
    for call in (
        "bytes\n    .extend_from_slice(\n        &more,\n    );",
        "let bytes = Vec::with_capacity(\n    file.size() as usize,\n);",
        "let all = values\n    .map(one)\n    .collect();",
        "let bytes = vec![\n    0;\n    size\n];",
    ):
        (found,) = tidy.allocations("a.rs", call)
        lines = call.splitlines()
        lines[int(found.split(":")[1]) - 1] += " // allocates: a few"
        assert not list(tidy.allocations("a.rs", "\n".join(lines))), call


@pytest.mark.parametrize(
    ("expression", "verdict"),
    [
        ("MIT OR Apache-2.0", True),
        ("MIT/Apache-2.0", True),
        ("(MIT OR GPL-3.0) AND Unicode-3.0", True),
        ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", True),
        ("MIT AND GPL-3.0", False),
        ("MPL-2.0", False),
        ("(MIT OR", False),
        ("", False),
    ],
)
def test_licence_expressions(expression: str, verdict: bool) -> None:
    assert licences.allowed(expression) is verdict


def test_crates_from_elsewhere_and_in_two_versions_are_told() -> None:
    ours = {"name": "ours", "version": "1.0.0", "license": "MIT", "source": None}
    other = {**ours, "name": "other", "source": licences.REGISTRY}
    twice = {**other, "version": "2.0.0", "source": "git+https://example.org/other"}
    assert licences.problems([ours, other]) == []
    assert licences.problems([ours, other, twice]) == [
        "other 2.0.0: comes from git+https://example.org/other",
        "other: in several versions, 1.0.0, 2.0.0",
    ]


class TestParts:
    """tools/test_parts.py runs each test file once, and fails if one of the parts does."""

    def test_each_file_is_in_one_part(self) -> None:
        files = test_parts.test_files(ROOT, set())
        dealt = test_parts.parts(files, 8)
        assert len(dealt) == 8
        assert sorted(name for part in dealt for name in part) == files
        assert len(files) > 100
        assert test_parts.parts(["a", "b"], 8) == [["a"], ["b"]]

    def test_what_is_ignored(self) -> None:
        without = test_parts.ignored(["-q", "--ignore=tests/cp", "--ignore=tests/bench/test_io.py"])
        files = test_parts.test_files(ROOT, without)
        assert not [name for name in files if name.startswith("tests/cp/")]
        assert "tests/bench/test_io.py" not in files
        assert "tests/bench/test_asking.py" in files

    @pytest.fixture
    def python(self, tmp_path: Path) -> str:
        """A program in place of Python, which says how it was called and ends with the last word's status."""
        program = tmp_path / "python"
        program.write_text('#!/bin/sh\necho "called: $*"\nfor word; do :; done\nexit "${word##*-}"\n')
        program.chmod(0o755)
        return str(program)

    @pytest.mark.parametrize(
        ("files", "passed"),
        [
            (["a-0", "b-0", "c-0"], True),
            (["a-0", "b-1", "c-0"], False),
            (["a-0", "b-5", "c-0"], True),
            (["a-5", "b-5", "c-5"], False),
        ],
        ids=["all pass", "one fails", "nothing selected in one", "nothing selected"],
    )
    def test_the_outcome_is_that_of_all_parts(
        self, python: str, capfd: pytest.CaptureFixture[str], files: list[str], passed: bool
    ) -> None:
        assert test_parts.run_all([python], files, ["-x"], 2) == passed
        said = capfd.readouterr().out.splitlines()
        calls = [line for line in said if line.startswith("called: ")]
        assert sorted(calls[:-1]) == [f"called: -m pytest --caches=keep -x {name}" for name in files]
        assert calls[-1] == f"called: -m pytest --caches=drop -x {' '.join(files)}"
        assert [line for line in said if line.startswith("failed: ")] == (
            [f"failed: {python}: part 2 of 3"] if "b-1" in files else []
        )

    def test_all_interpreters_have_all_parts(self, python: str, capfd: pytest.CaptureFixture[str]) -> None:
        other = f"{python}-other"
        Path(other).symlink_to(python)
        assert test_parts.run_all([python, other], ["a-0", "b-0"], [], 3)
        assert capfd.readouterr().out.count("called: ") == 2 * 2 + 2


def test_a_release_check_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(release_check, "run", lambda *command, **_: ran.append(command))
    assert "no tag" in str(release_check.check_interface(""))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert "no rustup" in str(release_check.check_oldest([]))
    with pytest.raises(SystemExit, match="cargo install --locked cargo-semver-checks"):
        release_check.check_interface("v1")
    monkeypatch.setattr(shutil, "which", lambda name: name)
    assert release_check.check_interface("v1") is None
    assert ran[0][-2:] == ("--baseline-rev", "v1")


def test_each_library_says_the_oldest_rust_that_it_needs() -> None:
    found = release_check.oldest(release_check.crates())
    assert {name for names in found.values() for name in names} == set(release_check.LIBRARIES)
    assert found["1.82"] == ["proactor-engine", "proactor-net"]


@pytest.mark.parametrize(
    ("rust", "missing"),
    [
        ("    /// Of it.\n    pub fn new(file: &File) -> Self {", ["new"]),
        ("    /// ```\n    /// go()\n    /// ```\n    pub fn new(file: &File) -> Self {", []),
        ("    /// ```\n    #[must_use]\n    pub fn new() -> Self {", []),
        ("    $(#[$new])*\n    pub fn new(\n        a: u8,\n    ) -> Self {", []),
        ("    /// With it.\n    pub fn flags(mut self, flags: Flags) -> Self {", []),
        ("    /// Its size.\n    pub fn size(&self) -> usize {", []),
        (
            "    /// ```\n    pub fn new() -> Self {\n    }\n\n"
            "    /// Of a file.\n    pub fn of(file: impl Into<Handle>) -> Self {",
            ["of"],
        ),
    ],
)
def test_constructors_of_ops_have_examples(tmp_path: Path, rust: str, missing: list[str]) -> None:
    file = tidy.ENGINE + "op/a.rs"
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(rust + "\n    }\n")
    found = [problem.rpartition("constructor ")[2].split()[0] for problem in tidy.examples(tmp_path, [file])]
    assert found == missing


def test_each_fuzzer_is_a_test() -> None:
    """cargo says of a name that no test has that all is well."""
    fuzzers = runpy.run_path(str(ROOT / "fuzz/run.py"))["TESTS"]
    for _, target, test in fuzzers.values():
        *modules, function = test.split("::")
        root = "src" if target == "--lib" else f"tests/{target.removeprefix('--test=')}"
        where = "/".join([root, *modules])
        files = [*ROOT.glob(f"crates/*/{where}.rs"), *ROOT.glob(f"crates/*/{where}/m[ao]*.rs")]
        assert any(f"fn {function}(" in path.read_text() for path in files), test
