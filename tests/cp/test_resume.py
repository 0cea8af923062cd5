"""`--resume`: the command is killed, and another one goes on. The copier's own tests kill it anywhere."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from cp_helpers import DEADLINE_S, Ours, proactor_command, snapshot, wait_until
from test_preserve import LIST

pytest_plugins = ["cp_fixtures"]

FILES = 300


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The partial tree of a copy of `s` to `t` that was killed while it waited for a FIFO's writer."""
    for directory in ("a", "b", "c"):
        (tmp_path / "s" / directory).mkdir(parents=True)
        for at in range(FILES // 3):
            (tmp_path / "s" / directory / f"{at}").write_text(f"{directory}{at}")
    (tmp_path / "s" / "waits").mkdir()
    os.mkfifo(tmp_path / "s" / "waits" / "fifo")
    process = subprocess.Popen(
        proactor_command("cp", "-a", "--copy-contents", "--jobs=2", "s", "t"), cwd=tmp_path
    )
    wait_until(lambda: any(path.stat().st_size > 1024 for path in tmp_path.glob("t.partial-*.journal")))
    process.send_signal(signal.SIGKILL)
    process.wait(DEADLINE_S)
    (tmp_path / "s" / "waits" / "fifo").unlink()
    (tree,) = (path for path in tmp_path.glob("t.partial-*") if path.suffix != ".journal")
    return tree


COMMAND = ("-a", "--copy-contents", "s", "t")


def report_of(lines: list[str]) -> dict[str, Any]:
    entries: list[dict[str, Any]] = [json.loads(line) for line in lines]
    (report,) = [entry for entry in entries if entry["event"] == "report"]
    return report


def test_it_goes_on(cp: Ours, killed: Path) -> None:
    outcome = cp("--resume", "--json", *COMMAND)
    assert (outcome.status, outcome.stderr) == (0, [])
    report = report_of(outcome.stdout)
    assert report["resumed"] >= 64
    assert report["resumed"] + report["files"] == FILES
    assert sum('"event":"resumed"' in line for line in outcome.stdout) == report["resumed"]
    assert snapshot(cp.directory / "s") == snapshot(cp.directory / "t")
    assert sorted(os.listdir(cp.directory)) == ["s", "t"]


def test_stats(cp: Ours, killed: Path) -> None:
    assert any(line.endswith("finished before") for line in cp("--resume", "--stats", *COMMAND).stdout)


def test_without_it_there_is_a_hint(cp: Ours, killed: Path) -> None:
    outcome = cp(*COMMAND)
    assert outcome.status == 0
    assert outcome.stderr == [
        f"cp: warning: '{killed.name}.journal' was left by an interrupted copy;"
        f" continue it with --resume, or remove '{killed.name}'* to discard it"
    ]
    assert snapshot(cp.directory / "s") == snapshot(cp.directory / "t")
    assert killed.is_dir()


@pytest.mark.parametrize(
    "words", ["-a --copy-contents s t", "--resume -a --copy-contents s t", "--resume -r s t"]
)
def test_a_dry_run(cp: Ours, killed: Path, words: str) -> None:
    """It says of what was left what a copy would say, and leaves it."""
    before = snapshot(cp.directory)
    rehearsed = cp("--dry-run", *words.split())
    assert rehearsed.tree == before
    assert snapshot(cp.directory) == before
    done = cp(*words.split())
    assert (rehearsed.status, rehearsed.stderr) == (done.status, done.stderr)


def test_a_dry_run_leaves_what_says_nothing(cp: Ours) -> None:
    """A journal without a word, as of a run that was killed before its first."""
    (cp.directory / "s").mkdir()
    (cp.directory / "t").mkdir()
    journal = cp.directory / "t.partial-0123abcd.journal"
    for words, left in (("--dry-run", True), ("-a", False)):
        journal.touch(0o600)
        outcome = cp("-a", "--resume", words, "s", "t")
        assert (outcome.status, outcome.stderr, journal.exists()) == (0, [], left)


def test_other_options_are_refused(cp: Ours, killed: Path) -> None:
    outcome = cp("--resume", "-r", "s", "t")
    assert outcome.status == 1
    assert outcome.stderr == [f"cp: cannot resume '{killed.name}.journal': it was started with other options"]


def test_another_source_is_refused(cp: Ours, killed: Path) -> None:
    (cp.directory / "other").mkdir()
    outcome = cp("--resume", "-a", "--copy-contents", "other", "t")
    assert outcome.status == 1
    assert outcome.stderr == [
        f"cp: cannot resume '{killed.name}.journal': it was started from another source, '{cp.directory}/s'"
    ]


def test_lists_of_a_finished_directory(cp: Ours, killed: Path) -> None:
    """What has its lists already hands none down to what is still to be made in it."""
    (cp.directory / "s" / "late" / "below").mkdir(parents=True)
    (cp.directory / "s" / "late" / "below" / "file").write_text("late")
    for top in (cp.directory / "s", killed):
        os.setxattr(top, "system.posix_acl_default", LIST)
    outcome = cp("--resume", *COMMAND)
    assert (outcome.status, outcome.stderr) == (0, [])
    assert os.getxattr(cp.directory / "t", "system.posix_acl_default") == LIST
    late = cp.directory / "t" / "late"
    names = {name for entry in (late, *late.rglob("*")) for name in os.listxattr(entry)}
    assert not {name for name in names if "posix_acl" in name}
    assert snapshot(cp.directory / "s") == snapshot(cp.directory / "t")


def test_where_there_is_nothing_it_begins(cp: Ours) -> None:
    (cp.directory / "s").mkdir()
    (cp.directory / "s" / "f").write_text("f")
    for arguments in (("s", "t"), ("s/f", "g")):
        outcome = cp("--resume", "-a", *arguments)
        assert (outcome.status, outcome.stderr) == (0, [])
    assert sorted(os.listdir(cp.directory)) == ["g", "s", "t"]


def test_interrupted_by_a_signal(cp: Ours, killed: Path) -> None:
    """What Ctrl-C stops goes on as well, and the message says so."""
    shutil.rmtree(killed)
    killed.with_name(killed.name + ".journal").unlink()
    with (cp.directory / "s" / "waits" / "zeros").open("wb") as file:
        file.truncate(1 << 40)
    process = subprocess.Popen(
        proactor_command("cp", "-a", "--sparse=never", "--jobs=2", "s", "t"),
        cwd=cp.directory,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: any(cp.directory.glob("t.partial-*.journal")))
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert "continue it with --resume" in said
    (cp.directory / "s" / "waits" / "zeros").unlink()
    report = report_of(cp("--resume", "--json", "-a", "--sparse=never", "s", "t").stdout)
    assert report["resumed"] >= 64
    assert snapshot(cp.directory / "s") == snapshot(cp.directory / "t")
