"""`--resume` where others can see what is made: half files, backups, links, names that are gone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cp_helpers import DEADLINE_S, OLD_NS, Ours, Outcome, proactor_command, snapshot, wait_until

pytest_plugins = ["cp_fixtures"]

COPY = ("--copy-contents", "--resume", "s", "t")


@contextmanager
def killed(place: Path, *options: str, jobs: int = 1) -> Iterator[subprocess.Popen[bytes]]:
    """A copy of `s` into `t` that waits for a FIFO's writer, killed in the end."""
    command = proactor_command("cp", *options, f"--jobs={jobs}", *COPY)
    process = subprocess.Popen(command, cwd=place)
    try:
        yield process
    finally:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    """Before the writer of a FIFO that it reads closes it: that would be all of the file."""
    process.kill()
    assert process.wait(DEADLINE_S) == -signal.SIGKILL


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """With a source in which a directory waits, and an existing target."""
    (tmp_path / "s" / "waits").mkdir(parents=True)
    os.mkfifo(tmp_path / "s" / "waits" / "fifo")
    (tmp_path / "t" / "s").mkdir(parents=True)
    return tmp_path


def complaints(outcome: Outcome) -> list[str]:
    """Without the warning that `--in-place` is about new files alone beside a backup."""
    return [line for line in outcome.stderr if "no effect on files that exist" not in line]


def go_on(cp: Ours, *options: str) -> None:
    (cp.directory / "s" / "waits" / "fifo").unlink(missing_ok=True)
    outcome = cp(*options, *COPY)
    assert (outcome.status, outcome.stderr) == (0, [])
    assert [path.name for path in cp.directory.rglob("*partial*")] == []


def kind_of(path: Path) -> int | None:
    return stat.S_IFMT(path.lstat().st_mode) if os.path.lexists(path) else None


def half(place: Path, *options: str) -> None:
    """Leave half of `s/waits/fifo` in the target, of what is a file by now, and an old one."""
    pipe = place / "s" / "waits" / "fifo"
    there = place / "t" / "s" / "waits" / "fifo"
    with killed(place, *options) as process, open(pipe, "wb", buffering=0) as writer:
        writer.write(b"half")
        wait_until(lambda: there.exists() and there.stat().st_size == 4, process)
        end(process)
    pipe.unlink()
    pipe.write_bytes(b"half and the rest")
    os.utime(pipe, ns=(OLD_NS, OLD_NS))


HOW = ["-n", "-u", "-b", "--update=none", "--backup=numbered", "-up", "--fsync=each -n"]


@pytest.mark.parametrize("how", HOW)
def test_half_of_a_new_file_is_no_file(cp: Ours, place: Path, how: str) -> None:
    options = ("-r", "--in-place", *how.split())
    half(place, *options)
    outcome = cp(*options, *COPY)
    assert (outcome.status, complaints(outcome)) == (0, [])
    assert outcome.tree["t/s/waits/fifo"]["content"] == outcome.tree["s/waits/fifo"]["content"]
    assert outcome.tree["t/s/waits/fifo"]["mode"] == "0o644"
    assert os.listdir(place / "t" / "s" / "waits") == ["fifo"], "no backup of half a file"
    assert sorted(os.listdir(place / "t")) == ["s"]


@pytest.mark.parametrize("how", ["-u", "-u --in-place", "-up"])
def test_half_of_a_file_that_was_written_in_place(cp: Ours, place: Path, how: str) -> None:
    """It has another name, so that it keeps its inode."""
    there = place / "t" / "s" / "waits" / "fifo"
    there.parent.mkdir()
    there.write_bytes(b"what was there before")
    os.utime(there, ns=(0, 0))
    os.link(there, place / "other")
    half(place, "-r", *how.split())
    outcome = cp("-r", *how.split(), *COPY)
    assert (outcome.status, outcome.stderr) == (0, [])
    assert there.read_bytes() == b"half and the rest"
    assert there.samefile(place / "other")


@pytest.mark.parametrize("how", ["-n", "-u", "-b"])
@pytest.mark.parametrize("put", ["another file", "other bytes"])
def test_what_somebody_put_there_is_theirs(cp: Ours, place: Path, how: str, put: str) -> None:
    half(place, "-r", how, "--in-place")
    there = place / "t" / "s" / "waits" / "fifo"
    if put == "another file":
        # The first one is there still, so that this is another inode.
        there.rename(place / "kept")
    there.write_bytes(b"mine")
    outcome = cp("-r", how, "--in-place", *COPY)
    if how == "-b":
        assert (outcome.status, complaints(outcome)) == (0, [])
        assert there.read_bytes() == b"half and the rest"
        assert there.with_name("fifo~").read_bytes() == b"mine"
        return
    assert there.read_bytes() == b"mine"
    said = [] if put == "another file" else ["cp: not replacing 't/s/waits/fifo'"]
    assert (outcome.status, outcome.stderr) == (len(said), said)


def test_fifos_where_links_are_followed(cp: Ours, place: Path) -> None:
    """There nothing takes the place of what is there but our own."""
    os.mkfifo(place / "s" / "pipe")
    (place / "s" / "waits" / "fifo").unlink()
    (place / "s" / "waits" / "large").write_bytes(bytes(100_000))
    command = proactor_command("cp", "-rL", "--resume", "--bwlimit=100K", "--jobs=1", "s", "t")
    with subprocess.Popen(command, cwd=place) as process:
        wait_until((place / "t" / "s" / "pipe").exists, process)
        end(process)
    outcome = cp("-rL", "--resume", "--bwlimit=100K", "s", "t")
    assert (outcome.status, outcome.stderr) == (0, [])


def test_a_tree_of_another_source_is_gone_on_with(cp: Ours, tmp_path: Path) -> None:
    for name in ("a/x", "b/x/new", "t/x"):
        (tmp_path / name).mkdir(parents=True)
    for number in range(100):
        (tmp_path / "b" / "x" / "new" / f"{number}").write_text(f"{number}")
    (tmp_path / "b" / "x" / "new" / "z").mkdir()
    os.mkfifo(tmp_path / "b" / "x" / "new" / "z" / "fifo")
    words = ("-r", "--copy-contents", "--resume", "a/x", "b/x", "t")
    with subprocess.Popen(proactor_command("cp", "--jobs=1", *words), cwd=tmp_path) as process:
        made = (tmp_path / "t" / "x").glob
        wait_until(lambda: len(list(made("new.partial-*/*"))) >= 100, process)
        end(process)
    (tmp_path / "b" / "x" / "new" / "z" / "fifo").unlink()
    outcome = cp("--json", *words)
    assert outcome.status == 0
    # What one thread has not written down is less than 64.
    (report,) = [line for line in map(json.loads, outcome.stdout) if line["event"] == "report"]
    assert report["resumed"] >= 64
    assert sorted(os.listdir(tmp_path / "t" / "x")) == ["new"]


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("how", ["-b", "--backup=numbered", "--update=none-fail"])
def test_a_link_or_a_fifo_is_not_made_twice(cp: Ours, place: Path, kind: str, how: str) -> None:
    """Else its backup would be of what we have made, and what was there before is gone."""
    source, there = place / "s" / kind, place / "t" / "s" / kind
    if kind == "link":
        source.symlink_to("nowhere")
    else:
        os.mkfifo(source)
    old = how != "--update=none-fail"
    if old:
        there.write_text("precious")
    (place / "s" / "waits" / "fifo").unlink()
    # FIFOs are made here, so that another file is waited for: one that is read as slowly as that.
    (place / "s" / "waits" / "large").write_bytes(bytes(100_000))
    options = ("-a", how, "--bwlimit=100K")
    command = proactor_command("cp", *options, "--jobs=1", "--resume", "s", "t")
    with subprocess.Popen(command, cwd=place) as process:
        wait_until(lambda: kind_of(there) == kind_of(source), process)
        end(process)
    outcome = cp(*options, "--resume", "s", "t")
    assert (outcome.status, outcome.stderr) == (0, [])
    backups = sorted(path.name for path in (place / "t" / "s").iterdir() if "~" in path.name)
    assert backups == ([f"{kind}~" if how == "-b" else f"{kind}.~1~"] if old else [])
    for name in backups:
        assert (place / "t" / "s" / name).read_text() == "precious"


def test_what_somebody_has_replaced_in_a_new_directory(cp: Ours, place: Path) -> None:
    """One that has got its name in a target that was there, while the copy went on."""
    for directory in range(4):
        (place / "s" / f"{directory}").mkdir()
        for number in range(40):
            (place / "s" / f"{directory}" / f"{number}").write_text("ours")
    finished = [place / "t" / "s" / f"{directory}" for directory in range(4)]
    with killed(place, "-r", jobs=2) as process:
        wait_until(lambda: all(path.exists() for path in finished), process)
    for tree in finished:
        for path in list(tree.iterdir()):
            path.unlink()
            path.write_text("evil")
    go_on(cp, "-r")
    assert {path.read_text() for tree in finished for path in tree.iterdir()} == {"ours"}


def partly(place: Path, *options: str, is_there: Callable[[Path], bool]) -> None:
    """Kill a copy to a new name, when its partial tree is as far as that."""
    shutil.rmtree(place / "t")
    with killed(place, *options, jobs=2) as process:
        wait_until(
            lambda: any(is_there(tree) for tree in place.glob("t.partial-*") if tree.is_dir()), process
        )


def test_what_is_excluded_by_now(cp: Ours, place: Path) -> None:
    for number in range(3):
        (place / "s" / f"{number}").mkdir()
        (place / "s" / f"{number}" / "cache").write_text("secret")
    options = ("-a", "--exclude=cache/")
    partly(place, *options, is_there=lambda tree: len(list(tree.glob("*/cache"))) == 3)
    for number in range(3):
        (place / "s" / f"{number}" / "cache").unlink()
        (place / "s" / f"{number}" / "cache").mkdir()
    go_on(cp, *options)
    assert list((place / "t").rglob("cache")) == []


def test_attributes_that_a_directory_has_lost(cp: Ours, place: Path) -> None:
    for number in range(3):
        (place / "s" / f"{number}").mkdir()
        os.setxattr(place / "s" / f"{number}", "user.old", b"1")
    partly(place, "-a", is_there=lambda tree: sum(bool(os.listxattr(path)) for path in tree.iterdir()) == 3)
    for number in range(3):
        os.removexattr(place / "s" / f"{number}", "user.old")
    os.setxattr(place / "s" / "0", "user.new", b"2")
    go_on(cp, "-a")
    assert snapshot(place / "s") == snapshot(place / "t")


@pytest.mark.parametrize("by_now", ["nothing", "a link", "a file"])
@pytest.mark.parametrize("what", ["new", "old", "old/new"])
def test_nothing_is_left_of_what_the_source_has_lost(cp: Ours, place: Path, what: str, by_now: str) -> None:
    target = place / "t"
    (target / "s" / "old").mkdir()
    (place / "s" / "waits").rename(place / "s" / "moved")
    (place / "s" / what).mkdir(parents=True)
    (place / "s" / "moved" / "fifo").rename(place / "s" / what / "fifo")
    (place / "t" / "s" / "old" / "kept").write_text("kept")
    (place / "t" / "s" / "old" / "other.partial-00000000").write_text("not ours")
    with killed(place, "-a") as process, open(place / "s" / what / "fifo", "wb", buffering=0) as writer:
        writer.write(b"half")
        wait_until(
            lambda: any(path.is_file() and path.stat().st_size for path in target.rglob("fifo*")), process
        )
        end(process)
    assert any("fifo.partial" in path.name or "new.partial" in str(path) for path in place.rglob("*"))
    shutil.rmtree(place / "s" / what)
    if by_now == "a link":
        (place / "s" / what).symlink_to("moved")
    elif by_now == "a file":
        (place / "s" / what).write_text("file")
    outcome = cp("-a", *COPY)
    # What is a directory there stays one.
    assert outcome.status == (by_now != "nothing" and what == "old")
    assert [path.name for path in place.rglob("*partial*")] == ["other.partial-00000000"]
    assert (place / "t" / "s" / "old" / "kept").read_text() == "kept"


@pytest.mark.parametrize("how", ["-au", "-an"])
def test_names_of_one_file(cp: Ours, place: Path, how: str) -> None:
    """The first of them is left alone by the run that goes on, and the others are its names."""
    below = place / "s" / "waits" / "below"
    below.mkdir()
    (place / "s" / "first").write_text("one file")
    os.link(place / "s" / "first", below / "second")
    (place / "t" / "s" / "waits" / "below").mkdir(parents=True)
    with killed(place, how) as process:
        wait_until((place / "t" / "s" / "first").exists, process)
    go_on(cp, how)
    assert (place / "t" / "s" / "first").samefile(place / "t" / "s" / "waits" / "below" / "second")


@pytest.mark.parametrize("how", ["-b", "--backup=numbered", "--update=none-fail"])
def test_things_in_a_new_directory_that_has_its_name(cp: Ours, place: Path, how: str) -> None:
    (place / "s" / "new").mkdir()
    (place / "s" / "new" / "link").symlink_to("nowhere")
    (place / "s" / "new" / "file").write_text("file")
    with killed(place, "-a", how, jobs=2) as process:
        wait_until((place / "t" / "s" / "new").exists, process)
    (place / "s" / "waits" / "fifo").unlink()
    outcome = cp("-a", how, *COPY)
    assert (outcome.status, outcome.stderr) == (0, [])
    assert sorted(os.listdir(place / "t" / "s" / "new")) == ["file", "link"]


@pytest.mark.parametrize("how", ["-n", "-u", "-b", "--update=none-fail", "--backup=numbered"])
def test_a_name_that_comes_before_the_one_that_was_copied(cp: Ours, tmp_path: Path, how: str) -> None:
    """Both are names of one file, and nothing is a backup of what we have made."""
    for name in ("a/below", "b", "t/a/below", "t/b"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "b" / "second").write_text("one file")
    os.link(tmp_path / "b" / "second", tmp_path / "a" / "below" / "first")
    os.mkfifo(tmp_path / "a" / "fifo")
    words = ("-dr", how, "--copy-contents", "--resume", "a", "b", "t")
    with subprocess.Popen(proactor_command("cp", "--jobs=2", *words), cwd=tmp_path) as process:
        wait_until((tmp_path / "t" / "b" / "second").exists, process)
        end(process)
    (tmp_path / "a" / "fifo").unlink()
    outcome = cp("--jobs=1", *words)
    assert (outcome.status, outcome.stderr) == (0, [])
    assert (tmp_path / "t" / "a" / "below" / "first").samefile(tmp_path / "t" / "b" / "second")
    assert sorted(os.listdir(tmp_path / "t" / "b")) == ["second"]
