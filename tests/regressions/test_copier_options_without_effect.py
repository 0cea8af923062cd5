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
from cp_helpers import Ours, Runner, proactor_command

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


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--include=foo/***",)], ids=" ".join)
def test_patterns_that_leave_out_the_sources(cp: Ours, foo: Path, options: tuple[str, ...]) -> None:
    (foo / "t").mkdir()
    outcome = cp("-r", *options, "--exclude=*", "src", "src/other/c", "t")
    assert outcome.status == 0
    assert any("nothing was copied: the patterns leave out each source" in line for line in outcome.stderr)


def test_a_source_that_is_left_out_beside_another(cp: Ours, foo: Path) -> None:
    (foo / "t").mkdir()
    outcome = cp("-r", "--exclude=c", "src/foo", "src/other/c", "t")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert names_below(foo / "t") == {"foo", "foo/a", "foo/bar", "foo/bar/b"}


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


@pytest.mark.parametrize(
    "options", [(), ("-p",), ("-r",), ("--in-place",), ("--engine=uring",)], ids=" ".join
)
@pytest.mark.parametrize("old", [None, "", "old"])
def test_blocks_of_an_empty_file(cp: Ours, tmp_path: Path, old: str | None, options: tuple[str, ...]) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "full").write_text("contents")
    has_reflinks = cp("--reflink=always", "full", "other").status == 0
    if old is not None:
        (tmp_path / "new").write_text(old)
    outcome = cp("--reflink=always", *options, "empty", "new")
    assert outcome.status == (0 if has_reflinks else 1)
    if not has_reflinks:
        assert outcome.stderr == ["cp: failed to clone 'new' from 'empty': Operation not supported"]
        assert (old is None) == ("new" not in outcome.tree)


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


WITHOUT_CONTENTS = [
    (f"{option} {method}", f"{option.partition('=')[0]} has no effect with -l, -s or --attributes-only")
    for option in ("--verify", "--bwlimit=5M", "--resume", "--in-place")
    for method in ("-l", "-rs", "--attributes-only")
]
OTHERS = [
    ("--json --stats", "--stats has no effect with --json, whose report says the same"),
    ("--json --debug", "--debug has no effect with --json"),
    ("--jobs=2 -i", "--jobs has no effect with -i"),
    (
        "--in-place --remove-destination",
        "--in-place has no effect on files that exist with --remove-destination, which replaces them",
    ),
    (
        "--in-place -b",
        "--in-place has no effect on files that exist with --backup, which moves them out of the way",
    ),
    (
        "--reflink=always --bwlimit=5M",
        "--bwlimit has no effect with --reflink=always, which writes no bytes",
    ),
    ("--keep-directory-symlink", "--keep-directory-symlink has no effect without -r"),
]
PATTERNS = [
    (
        f"-r {options}",
        "--include has no effect where no --exclude comes after it: the first pattern that matches decides",
    )
    for options in ("--include=a", "--exclude=* --include=a", "--include=a --exclude=b --include=c")
]
PLANS = [
    (f"-r --plan=plan {option}", "-v, --debug and --stats have no effect with --plan, which copies nothing")
    for option in ("-v", "--debug", "--stats")
]


@pytest.mark.parametrize(
    ("options", "warning"), WITHOUT_CONTENTS + OTHERS + PATTERNS + PLANS, ids=lambda text: text
)
def test_an_option_without_effect(cp: Ours, tmp_path: Path, options: str, warning: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "a").touch()
    source = str(tmp_path / ("d" if "-r" in options.split() else "a"))
    said = cp(*options.split(), source, "new").stderr
    assert [line for line in said if "no effect" in line] == [f"cp: warning: {warning}"]


@pytest.mark.parametrize(
    "options",
    [
        "--verify --bwlimit=5M --resume --engine=threads --in-place",
        "--json",
        "--stats --debug",
        "--jobs=2",
        "--jobs=1 -i",
        "-r --keep-directory-symlink",
        "--in-place -u",
        "-r --plan=plan --json",
        "-r --include=a --exclude=b",
        "-r --include=a --exclude=b --include=c --exclude=*",
    ],
)
def test_an_option_with_effect(cp: Ours, tmp_path: Path, options: str) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "a").touch()
    outcome = cp(*options.split(), "d/." if "-r" in options.split() else "a", "new")
    assert (outcome.status, outcome.stderr) == (0, [])


def test_the_last_value_counts(cp: Ours, tmp_path: Path) -> None:
    """As with GNU cp, without a word."""
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    outcome = cp("--sparse=never", "--sparse=always", "--jobs=2", "--jobs=1", "a", "new")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert (tmp_path / "new").stat().st_blocks == 0


def test_progress_beside_json(cp: Ours, tmp_path: Path) -> None:
    """Each has its own stream."""
    (tmp_path / "a").write_bytes(bytes(3 << 20))
    outcome = cp("--json", "--progress=always", "--bwlimit=4M", "--sparse=never", "a", "new")
    assert outcome.status == 0
    assert all("/s" in line for line in outcome.stderr)
    assert outcome.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("--shard=0 --shard=1 plan", "--shard is given once: one shard is copied at a time"),
        ("--plan=other --plan=third -r d t", "--plan is given once: a plan is written to one file"),
        ("--ray=auto --ray=local -r d t", "--ray is given once: one cluster copies the shards"),
        ("--shard=7 plan", "there is no shard 7: they are 0 to "),
        ("--finish --shards=3 plan", "--shards goes with --plan or --ray"),
        ("--shards=3 -r d other", "--shards goes with --plan or --ray"),
        ("--plan=other --finish d", "--plan, --shard and --finish are mutually exclusive"),
        ("--shard=0 -a plan", "options on how files are copied belong to --plan"),
        ("--plan=other -r d d other", "target 'other': No such file or directory"),
        ("--plan=other -r --files-from=list d", "no --files-from here"),
        ("--shard=-1 plan", "expected an integer of at least 0"),
        ("--plan=other --shards=0 -r d other", "expected an integer of at least 1"),
    ],
)
def test_options_of_plans_that_do_not_fit(cp: Ours, tmp_path: Path, options: str, problem: str) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    assert cp("-r", "--plan=plan", "d", "new").status == 0
    outcome = cp(*options.split())
    assert outcome.status == 1
    assert any(problem in line for line in outcome.stderr), outcome.stderr


def test_the_environment_is_not_a_wish_about_a_plan(cp: Ours, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    posix = {"POSIXLY_CORRECT": "1"}
    assert cp("-r", "--plan=plan", "d", "new", environment=posix).status == 0
    for step in ("--shard=0", "--finish"):
        outcome = cp(step, "plan", environment=posix)
        assert (outcome.status, outcome.stderr) == (0, [])


@pytest.mark.parametrize("end", [b"\r\n", b"\n", b"\0"], ids=["crlf", "lf", "zero"])
def test_a_list_of_names(cp: Ours, tmp_path: Path, end: bytes) -> None:
    for name in ("a", "b"):
        (tmp_path / name).touch()
    (tmp_path / "t").mkdir()
    (tmp_path / "list").write_bytes(end.join([b"a", b"b", b""]))
    outcome = cp("--files-from=list", "t")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert names_below(tmp_path / "t") == {"a", "b"}


@pytest.mark.parametrize(
    ("arguments", "environment", "status", "problem"),
    [
        (["doctor", "more"], {}, 2, "unexpected argument 'more'"),
        (["doctor", "--jason"], {}, 2, "unexpected argument '--jason'"),
        (["doctor"], {"PROACTOR_ENGINE": "fast"}, 1, "PROACTOR_ENGINE"),
    ],
)
def test_doctor(
    runner: Runner,
    tmp_path: Path,
    arguments: list[str],
    environment: dict[str, str],
    status: int,
    problem: str,
) -> None:
    done = runner.proactor(tmp_path, *arguments, environment=environment)
    assert done.returncode == status
    assert problem in done.stdout + done.stderr
