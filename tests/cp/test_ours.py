"""What GNU's cp does not have: --json, --stats, --progress, --jobs, --fsync, --in-place, whole files only."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
from pathlib import Path
from typing import Any

import arrangements
import pytest
from cp_helpers import Ours, Runner, proactor_command

pytest_plugins = ["cp_fixtures"]


def events(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def one(found: list[dict[str, Any]], event: str) -> dict[str, Any]:
    (only,) = [entry for entry in found if entry["event"] == event]
    return only


class TestJson:
    def test_events_and_report(self, cp: Ours) -> None:
        arrangements.tree(cp.directory)
        outcome = cp("-a", "--json", "t", "new")
        found = events(outcome.stdout)
        report = one(found, "report")
        copied = [entry for entry in found if entry["event"] == "copied"]
        assert outcome.status == report["status"] == 0
        assert (report["files"], report["directories"], report["symlinks"], report["hard_links"]) == (
            4,
            4,
            3,
            1,
        )
        assert report["failures"] == report["skipped"] == 0
        assert report["bytes"] + report["shared_bytes"] + report["hole_bytes"] == 5024
        assert {entry["kind"] for entry in copied} == {"file", "directory", "symlink", "hard link"}
        assert {"event": "copied", "kind": "directory", "source": "t", "target": "new", "bytes": 0} in copied
        assert len(copied) == 12

    def test_report_is_last(self, runner: Runner, tmp_path: Path) -> None:
        arrangements.tree(tmp_path)
        done = runner.proactor(tmp_path, "cp", "-a", "--json", "t", "new")
        assert json.loads(done.stdout.splitlines()[-1])["event"] == "report"

    def test_errors_and_skipped(self, cp: Ours) -> None:
        arrangements.overwrite(cp.directory)
        outcome = cp("-n", "--json", "nowhere", "new", "into")
        found = events(outcome.stdout)
        error, skipped = one(found, "error"), one(found, "skipped")
        assert error["message"] == "cannot stat 'nowhere': No such file or directory"
        assert (error["path"], error["errno"]) == ("nowhere", 2)
        assert (skipped["source"], skipped["target"]) == ("new", "into/new")
        assert outcome.stderr == ["cp: " + error["message"]], "people are told, too"
        assert one(found, "report")["status"] == outcome.status == 1

    def test_error_of_two_paths(self, cp: Ours) -> None:
        error = one(events(cp("-l", "--json", "/proc/version", "new").stdout), "error")
        assert (error["path"], error["other"], error["errno"]) == ("new", "/proc/version", errno.EXDEV)

    def test_backup(self, cp: Ours) -> None:
        arrangements.overwrite(cp.directory)
        copied = one(events(cp("-b", "--json", "new", "into").stdout), "copied")
        assert copied["backup"] == "into/new~"

    def test_name_that_is_not_text(self, cp: Ours) -> None:
        (cp.directory / "\udcff").write_text("x")
        copied = one(events(cp("--json", "\udcff", "new").stdout), "copied")
        assert (copied["source"], copied["target"]) == ([255], "new")


def test_stats(cp: Ours) -> None:
    arrangements.tree(cp.directory)
    outcome = cp("-a", "--stats", "t", "new")
    text = "\n".join(outcome.stdout)
    assert "4 files, 5.0 kB in " in text
    assert "3 symbolic links" in text
    assert "1 hard link" in text


@pytest.mark.parametrize("when", ["auto", "never"])
def test_no_progress_where_there_is_no_terminal(cp: Ours, when: str) -> None:
    arrangements.files(cp.directory)
    outcome = cp(f"--progress={when}", "a", "new")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, [], [])


@pytest.mark.parametrize("jobs", ["1", "2", "7"])
def test_jobs(cp: Ours, jobs: str) -> None:
    arrangements.tree(cp.directory)
    outcome = cp("-a", "--jobs", jobs, "t", "new")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert len([name for name in outcome.tree if name.startswith("new")]) == 12


@pytest.mark.parametrize("jobs", ["0", "-1", "many", ""])
def test_wrong_jobs(cp: Ours, jobs: str) -> None:
    outcome = cp(f"--jobs={jobs}", "a", "new")
    assert outcome.status == 1
    assert "--jobs" in outcome.stderr[-1]


@pytest.mark.parametrize("when", ["none", "end", "each"])
def test_fsync(cp: Ours, when: str) -> None:
    arrangements.tree(cp.directory)
    outcome = cp("-a", f"--fsync={when}", "t", "new")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert outcome.tree["new/sub/deep/leaf"]["content"][0] == 5000


def test_a_file_is_replaced_as_a_whole(cp: Ours) -> None:
    """Whoever has the old one open keeps it, and reads nothing that is half of each."""
    arrangements.overwrite(cp.directory)
    with (cp.directory / "into" / "new").open() as reader:
        assert cp("new", "into").status == 0
        assert reader.read() == "new: was there, and is longer than the source\n"
    assert (cp.directory / "into" / "new").read_text() == "new: the source\n"


def test_in_place(cp: Ours) -> None:
    arrangements.overwrite(cp.directory)
    before = (cp.directory / "into" / "new").stat().st_ino
    assert cp("--in-place", "new", "into").status == 0
    assert (cp.directory / "into" / "new").stat().st_ino == before
    assert (cp.directory / "into" / "new").read_text() == "new: the source\n"


def test_a_file_with_several_names_keeps_them(cp: Ours) -> None:
    """As by GNU's cp: its contents change under all of its names."""
    arrangements.overwrite(cp.directory)
    os.link(cp.directory / "into" / "new", cp.directory / "other")
    assert cp("new", "into").status == 0
    assert (cp.directory / "other").read_text() == "new: the source\n"


def test_nothing_is_left_behind(cp: Ours) -> None:
    arrangements.overwrite(cp.directory)
    outcome = cp("-r", "/proc/self/mem", "tree", "new", "into")
    assert outcome.status == 1
    assert not [name for name in outcome.tree if "partial" in name]


def test_a_new_file_is_never_open_to_others(cp: Ours) -> None:
    secret = cp.directory / "secret"
    secret.write_text("secret\n")
    secret.chmod(0o4700)
    outcome = cp("-p", "secret", "new")
    assert outcome.tree["new"]["mode"] == oct(0o4700)
    assert stat.S_ISREG(outcome.tree["new"]["type"])


@pytest.mark.parametrize("words", [["cp", "--help"], ["--help"], ["--version"]])
def test_help_that_cannot_be_written(words: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            proactor_command(*words), stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert "No space left on device" in done.stderr


def test_parents_are_counted(cp: Ours) -> None:
    (cp.directory / "p" / "q").mkdir(parents=True)
    (cp.directory / "p" / "q" / "f").touch()
    (cp.directory / "new").mkdir()
    for options, count in [("--dry-run", 2), ("-p", 2), ("-p", 0)]:
        report = one(events(cp("--json", "--parents", options, "p/q/f", "new").stdout), "report")
        assert (report["directories"], report["files"]) == (count, 1)


@pytest.mark.parametrize("command", [["cp"], proactor_command("cp")])
def test_stdout_that_cannot_be_written(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "a").touch()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*command, "-v", "a", "b"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.endswith("cp: write error: No space left on device\n")


@pytest.mark.parametrize("more", [[], ["--progress=always"], ["--json"]])
def test_stderr_that_cannot_be_written(tmp_path: Path, more: list[str]) -> None:
    """What goes wrong is told to nobody, and the rest is copied."""
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    (tmp_path / "d").mkdir()
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            proactor_command("cp", *more, "a", "gone", "missing", "b", "d"),
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert sorted(os.listdir(tmp_path / "d")) == ["a", "b"]
    assert ("report" in done.stdout) == (more == ["--json"])


class TestFilesFrom:
    def test_lines(self, cp: Ours) -> None:
        arrangements.files(cp.directory)
        (cp.directory / "list").write_text("a\nd/inside\n")
        outcome = cp("--files-from=list", "--parents", "e")
        assert (outcome.status, outcome.stderr) == (0, [])
        assert {name for name in outcome.tree if name.startswith("e/")} == {"e/a", "e/d", "e/d/inside"}

    def test_zeros_from_stdin(self, cp: Ours) -> None:
        arrangements.files(cp.directory)
        (cp.directory / "two\nlines").touch()
        outcome = cp("--files-from", "-", "-t", "e", "b", stdin=b"two\nlines\0a\0")
        assert (outcome.status, outcome.stderr) == (0, [])
        assert {name for name in outcome.tree if name.startswith("e/")} == {"e/a", "e/b", "e/two\nlines"}

    def test_several(self, cp: Ours) -> None:
        arrangements.files(cp.directory)
        (cp.directory / "list").write_text("a\n")
        outcome = cp("--files-from=list", "--files-from", "-", "e", stdin=b"b\n")
        assert (outcome.status, outcome.stderr) == (0, [])
        assert {name for name in outcome.tree if name.startswith("e/")} == {"e/a", "e/b"}

    def test_nothing_to_copy(self, cp: Ours) -> None:
        arrangements.files(cp.directory)
        assert cp("--files-from=empty", "e").status == 0

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            (["--files-from=nowhere", "e"], "cp: 'nowhere': No such file or directory"),
            (["--files-from=empty", "a"], "cp: target 'a': Not a directory"),
            (
                ["--files-from=empty", "-T", "e"],
                "cp: cannot combine --files-from and --no-target-directory (-T)",
            ),
            (["--files-from=-", "--exclude-from=-", "e"], "cp: standard input (-) can be one list only"),
            (["--files-from=-", "--files-from=-", "e"], "cp: standard input (-) can be one list only"),
        ],
    )
    def test_wrong(self, cp: Ours, arguments: list[str], said: str) -> None:
        arrangements.files(cp.directory)
        outcome = cp(*arguments)
        assert (outcome.status, outcome.stderr) == (1, [said])
