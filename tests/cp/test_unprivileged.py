"""What may not be read, written or given away: as a user who is not root."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import arrangements
import pytest
from capabilities import needs
from cp_helpers import Outcome, Runner, Same, snapshot

pytest_plugins = ["cp_fixtures"]
pytestmark = needs("root")

USER = 65534


def give_away(root: Path) -> None:
    """Everything is the user's, but for what is named after root."""
    for path in (root, *root.rglob("*")):
        if "root" not in path.name:
            mode = path.lstat().st_mode
            os.chown(path, USER, USER, follow_symlinks=False)
            if not path.is_symlink():
                path.chmod(mode & 0o7777)


def as_user(same: Same, *arguments: str, stdin: bytes = b"", declined: bool = False) -> Outcome:
    return same.asked(protected, *arguments, after=give_away, user=USER, stdin=stdin, declined=declined)


def protected(root: Path) -> None:
    arrangements.overwrite(root)
    (root / "secret").write_text("secret\n")
    (root / "secret").chmod(0)
    (root / "into" / "old").chmod(0o444)
    for name in ("closed", "t", "t/closed", "t/open", "listed", "listed/d", "held"):
        (root / name).mkdir()
    for name in ("t/a", "t/secret", "t/open/b", "t/closed/c", "closed/new", "listed/a"):
        (root / name).write_text(name)
    (root / "t" / "secret").chmod(0)
    (root / "t" / "closed").chmod(0o300)
    (root / "closed").chmod(0o555)
    (root / "listed").chmod(0o600)
    (root / "held").chmod(0o300)
    (root / "of_root").write_text("of root\n")
    (root / "of_root").chmod(0o6755)
    (root / "into" / "of_root").write_text("was there\n")
    (root / "into" / "of_root").chmod(0o666)


FORMS = [
    "secret fresh",
    "secret new into",
    "-f secret new into",
    "new closed/fresh",
    "new closed",
    "-f new closed",
    "--remove-destination new closed",
    "-b new closed",
    "old into",
    "-f old into",
    "--remove-destination old into",
    "-b old into",
    "-l old into",
    "-lf old into",
    "-r t fresh",
    "-a t fresh",
    "-r t closed",
    "-r t closed/fresh",
    "of_root fresh",
    "-p of_root fresh",
    "-a of_root fresh",
    "--preserve=ownership of_root fresh",
    "of_root into",
    "new into/of_root",
    "-r listed fresh",
    "-a listed fresh",
    "-r t/closed into/new",
    "-rT t/open held",
    "-aT t/open held",
]


@pytest.mark.parametrize("form", FORMS)
def test_form(same: Same, form: str) -> None:
    as_user(same, *form.split())


@pytest.mark.parametrize("how", ["", "-p", "-a", "--preserve=ownership", "--preserve=mode", "-f"])
@pytest.mark.parametrize("source", ["new", "of_root"])
def test_file_of_ours_with_a_group_that_is_not(same: Same, how: str, source: str) -> None:
    """Who may read it does not change."""

    def given_away(root: Path) -> None:
        give_away(root)
        os.chown(root / "into" / "old", USER, 0)
        (root / "into" / "old").chmod(0o640)

    same(protected, *how.split(), source, "into/old", after=given_away, user=USER)


@pytest.mark.parametrize("umask", [0o222, 0o277, 0o333, 0o577, 0o777])
@pytest.mark.parametrize("form", ["-r t/open fresh", "-a t/open fresh", "--parents t/open/b into"])
def test_a_mask_that_takes_the_owners_rights(same: Same, form: str, umask: int) -> None:
    same(protected, *form.split(), after=give_away, user=USER, umask=umask)


@pytest.fixture
def passage() -> Iterator[Path]:
    """A directory that others may pass through and not list; pytest's own they may not pass through."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        yield Path(directory)


def test_a_plan_below_a_directory_that_may_not_be_listed(runner: Runner, passage: Path) -> None:
    home = passage
    (home / "user" / "source").mkdir(parents=True)
    (home / "user" / "source" / "file").write_text("file\n")
    for path in (home / "user", home / "user" / "source", home / "user" / "source" / "file"):
        os.chown(path, USER, USER)
    for step in ("-a --plan=plan source copy", "--shard=0 plan", "--finish plan"):
        done = runner.proactor(home / "user", "cp", *step.split(), user=USER)
        assert (done.returncode, done.stderr) == (0, "")
    assert (home / "user" / "copy" / "file").read_text() == "file\n"


@pytest.mark.parametrize("form", FORMS)
def test_dry_run(runner: Runner, tmp_path: Path, form: str) -> None:
    """It fails where the copy does, and only there."""
    protected(tmp_path)
    give_away(tmp_path)
    before = snapshot(tmp_path)
    rehearsed = runner.proactor(tmp_path, "cp", "--dry-run", *form.split(), user=USER)
    assert snapshot(tmp_path) == before
    done = runner.proactor(tmp_path, "cp", *form.split(), user=USER)
    assert (rehearsed.returncode, rehearsed.stderr) == (done.returncode, done.stderr)


@pytest.mark.parametrize("answer", [b"y\n", b"n\n"])
@pytest.mark.parametrize("how", ["-i", "-if"])
def test_question_about_a_file_that_may_not_be_written(same: Same, how: str, answer: bytes) -> None:
    outcome = as_user(same, how, "old", "into", stdin=answer, declined=answer == b"n\n")
    assert "mode 0444" in outcome.stderr[0]
