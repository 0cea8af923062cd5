"""What may not be read, written or given away: as a user who is not root."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import arrangements
import pytest
from capabilities import needs
from cp_helpers import Outcome, Runner, Same, access_list, snapshot

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


def unreadable(root: Path) -> None:
    for directory in ("S", "D"):
        (root / directory).mkdir()
        for name in ("private", "open"):
            (root / directory / name).write_text(f"{directory} {name}")


def keep_from_user(root: Path) -> None:
    """The source is older, of the same user, and may not be read."""
    give_away(root)
    for path in (root / "D").iterdir():
        os.utime(path, ns=(2 * 10**18, 2 * 10**18))
    (root / "S" / "private").chmod(0)


@pytest.mark.parametrize("form", ["-u S/private D", "-n S/private D", "-ru S/. D", "-rn S/. D", "-r S/. D"])
def test_what_stays_as_it_is_need_not_be_read(same: Same, form: str) -> None:
    found, expected = same.both(unreadable, *form.split(), after=keep_from_user, user=USER)
    assert found.status == expected.status == (form == "-r S/. D")
    assert found.stderr == expected.stderr
    assert [found.tree[f"D/{name}"]["content"] for name in ("private", "open")] == [
        expected.tree[f"D/{name}"]["content"] for name in ("private", "open")
    ]


def test_a_question_comes_before_the_source_is_opened(same: Same) -> None:
    as_user(same, "-i", "secret", "into/old", stdin=b"n\n", declined=True)


@pytest.mark.parametrize("list_", ["u::rw,g::r,o::r", "u::rx,g::rx,o::-", "u::-,g::r,o::r"])
@pytest.mark.parametrize("form", ["-r S/d E", "-rp S/. E", "-r S E/new", "--parents S/d/f E", "-a S E"])
def test_a_list_that_takes_the_owners_rights(same: Same, form: str, list_: str) -> None:
    def closing(root: Path) -> None:
        (root / "S" / "d").mkdir(parents=True)
        (root / "S" / "d" / "f").write_text("f")
        (root / "E").mkdir()

    def hand_down(root: Path) -> None:
        give_away(root)
        os.setxattr(root / "E", "system.posix_acl_default", access_list(list_))

    same(closing, *form.split(), after=hand_down, user=USER)


@pytest.mark.parametrize("umask", [0o022, 0o777])
@pytest.mark.parametrize("how", ["--preserve=xattr", "-a", "-p --preserve=xattr"])
def test_attributes_of_what_may_not_be_written(same: Same, how: str, umask: int) -> None:
    def marked(root: Path) -> None:
        (root / "f").write_text("f")
        os.setxattr(root / "f", "user.mark", b"1")

    def protect(root: Path) -> None:
        give_away(root)
        (root / "f").chmod(0o444)

    same(marked, *how.split(), "f", "new", after=protect, user=USER, umask=umask)


@pytest.mark.parametrize("how", ["-a", "--preserve=all"])
@pytest.mark.parametrize("target", ["new", "there"])
def test_attributes_beside_a_list_that_keeps_us_out(same: Same, how: str, target: str) -> None:
    def listed(root: Path) -> None:
        (root / "f").write_text("f")
        (root / "there").write_text("there")

    def protect(root: Path) -> None:
        give_away(root)
        # In this order, in which they are listed.
        list_ = access_list("u::r,g::rw,g:1001:rx,m::rwx,o::r")
        os.setxattr(root / "f", "system.posix_acl_access", list_)
        os.setxattr(root / "f", "user.z", b"1")

    found = same(listed, how, "f", target, after=protect, user=USER)
    assert "user.z" in found.tree[target]["xattrs"]


@pytest.mark.parametrize("how", ["-b", "--backup=simple", "--backup=numbered"])
def test_backups_where_names_may_not_be_listed(same: Same, how: str) -> None:
    def hidden(root: Path) -> None:
        (root / "D").mkdir()
        (root / "D" / "old").write_text("old")
        (root / "new").write_text("new")

    def protect(root: Path) -> None:
        give_away(root)
        (root / "D").chmod(0o300)

    same(hidden, how, "-T", "new", "D/old", after=protect, user=USER)


@pytest.mark.parametrize("mode", [0o555, 0o400])
@pytest.mark.parametrize("how", ["-a", "-rp", "--preserve=mode -r"])
def test_no_journal_stays_in_a_directory_that_is_closed_in_the_end(same: Same, how: str, mode: int) -> None:
    """A target that is merged into has it inside."""

    def many(root: Path) -> None:
        for directory in ("S", "S/sub", "D"):
            (root / directory).mkdir()
        for number in range(200):
            (root / "S" / "sub" / f"{number}").write_text("x")

    def close(root: Path) -> None:
        give_away(root)
        (root / "S").chmod(mode | 0o100)

    same(many, *how.split(), "S/.", "D", after=close, user=USER)


@pytest.mark.parametrize("owner", [0, USER])
@pytest.mark.parametrize("mode", [0o1777, 0o555, 0o1555])
@pytest.mark.parametrize("how", ["--remove-destination", "-d", "-a", "-p --remove-destination", "-rd"])
def test_other_names_of_what_cannot_be_removed(same: Same, how: str, mode: int, owner: int) -> None:
    """It may be written to, but then the other name would tell."""

    def named(root: Path) -> None:
        (root / "D").mkdir()
        (root / "D" / "old").write_text("old")
        (root / "D" / "old").chmod(0o666)
        os.link(root / "D" / "old", root / "other")
        (root / "new").write_text("new, and longer")

    def protect(root: Path) -> None:
        give_away(root)
        os.chown(root / "D", 0, 0)
        (root / "D").chmod(mode)
        os.chown(root / "other", owner, owner)
        (root / "other").chmod(0o666)

    found = same(named, *how.split(), "new", "D/old", after=protect, user=USER)
    assert found.status == (0 if mode == 0o1777 and owner == USER else 1)
