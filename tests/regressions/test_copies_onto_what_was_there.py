"""What is in the target already, and what an earlier source has put there.

Users saw the second of two sources refused because of a first one that was skipped, parents that kept
their old permissions, a long name without a numbered backup, and dry runs whose status was not the copy's.
"""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from cp_helpers import Ours, Runner, Same, proactor_command

pytest_plugins = ["cp_fixtures"]


def two_of_a_name(root: Path) -> None:
    for name in ("a", "b", "t"):
        (root / name).mkdir()
        (root / name / "f").write_text(name)


def ages(*years: int) -> object:
    def set_them(root: Path) -> None:
        for name, year in zip(("a", "b", "t"), years, strict=True):
            seconds = (year - 1970) * 31_557_600
            os.utime(root / name / "f", (seconds, seconds))

    return set_them


@pytest.mark.parametrize("years", [(2001, 2003, 2002), (2001, 2001, 2002), (2003, 2004, 2002)])
@pytest.mark.parametrize("options", [["-u"], ["-n"], ["-u", "-l"], ["-u", "-p"]])
def test_only_what_was_created_is_not_overwritten(
    same: Same, years: tuple[int, int, int], options: list[str]
) -> None:
    same(two_of_a_name, *options, "a/f", "b/f", "t", after=ages(*years))


def test_answered_with_no(same: Same) -> None:
    same.asked(two_of_a_name, "-i", "a/f", "b/f", "t", stdin=b"n\ny\n", declined=True)


@pytest.mark.parametrize("years", [(2001, 2003, 2002), (2003, 2004, 2002), (2001, 2001, 2001)])
@pytest.mark.parametrize(
    "option", ["-n", "-u", "--update=none", "--update=none-fail", "-p", "-pu", "--backup=t"]
)
@pytest.mark.parametrize("is_there", [True, False])
def test_a_dry_run_has_the_status_of_the_copy(
    runner: Runner, tmp_path: Path, option: str, years: tuple[int, int, int], is_there: bool
) -> None:
    two_of_a_name(tmp_path)
    ages(*years)(tmp_path)  # type: ignore[operator]
    if not is_there:
        (tmp_path / "t" / "f").unlink()
    status = [
        runner.proactor(tmp_path, "cp", *more, option, "a/f", "b/f", "t").returncode
        for more in (["--dry-run"], [])
    ]
    assert status[0] == status[1]


def parents(root: Path) -> None:
    for path in ("a/b/c", "a/b/d", "e/a/b"):
        (root / path).mkdir(parents=True)
    (root / "a/b/c/foo").touch()
    (root / "a/b/d/foo").touch()
    (root / "a").chmod(0o711)
    (root / "a/b").chmod(0o750)
    (root / "e/a").chmod(0o700)
    (root / "e/a/b").chmod(0o705)


@pytest.mark.parametrize("options", [["-p"], ["-a"], ["--preserve=mode"], ["--preserve=timestamps"], []])
def test_parents_that_are_there(same: Same, options: list[str]) -> None:
    same(parents, "--parents", *options, "a/b/c/foo", "a/b/d/foo", "e")


@pytest.mark.parametrize("length", [252, 253, 255])
@pytest.mark.parametrize("control", ["numbered", "existing"])
def test_backups_of_long_names(runner: Runner, tmp_path: Path, length: int, control: str) -> None:
    name = "y" * length
    left = []
    for directory, command in (("gnu", ["cp"]), ("our", ["proactor", "cp"])):
        root = tmp_path / directory
        for place, text in (("s", "new"), ("t", "old")):
            (root / place).mkdir(parents=True)
            (root / place / name).write_text(text)
        arguments = [f"--backup={control}", f"s/{name}", "t"]
        done = (
            runner.run(root, *command, *arguments)
            if directory == "gnu"
            else runner.proactor(root, *command[1:], *arguments)
        )
        texts = {path.name: path.read_text() for path in (root / "t").iterdir()}
        left.append((done.returncode, done.stderr, texts))
    assert left[0] == left[1]


def test_a_backup_whose_name_is_taken(cp: Ours, tmp_path: Path) -> None:
    """All numbers end in the same name, so that there is one such backup."""
    name = "y" * 255
    for place in ("s", "t"):
        (tmp_path / place).mkdir()
        (tmp_path / place / name).write_text(place)
    assert cp("--backup=numbered", f"s/{name}", "t").status == 0
    outcome = cp("--backup=numbered", f"s/{name}", "t")
    assert outcome.status == 1
    assert outcome.stderr == [f"cp: cannot backup 't/{name}': File exists"]
    assert (tmp_path / "t" / ("y" * 253 + "~")).read_text() == "t"


def test_into_itself_is_told_once(same: Same) -> None:
    def arrange(root: Path) -> None:
        (root / "a").mkdir()
        (root / "dir" / "a").mkdir(parents=True)
        (root / "dir" / "dir").mkdir()

    outcome = same.saying(arrange, "-rl", "a", "dir", "dir")
    assert len(outcome.stderr) == 1


def test_a_directory_that_was_removed(tmp_path: Path) -> None:
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"'
    for number, command in enumerate((["cp"], proactor_command("cp"))):
        done = subprocess.run(
            ["bash", "-c", script, *command, "-r", ".", f"../new{number}"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / f"new{number}").is_dir()


@pytest.mark.parametrize("umask", [0o022, 0o077, 0])
def test_permissions_of_new_special_files(same: Same, umask: int) -> None:
    def arrange(root: Path) -> None:
        os.mkfifo(root / "fifo", 0o640)
        here = os.open(".", os.O_PATH)
        os.chdir(root)
        with socket.socket(socket.AF_UNIX) as unix:
            unix.bind("socket")
        os.fchdir(here)
        os.close(here)

    same(arrange, "-r", "--no-preserve=mode", "fifo", "new-fifo", umask=umask)
    same(arrange, "-r", "--no-preserve=mode", "socket", "new-socket", umask=umask)
