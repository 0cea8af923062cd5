"""What happens to a file that is there: -f -i -n -u, --backup, --remove-destination, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import arrangements
import pytest
from cp_helpers import OLD_NS, Arrange, Ours, Same

pytest_plugins = ["cp_fixtures"]

SOURCES = ("new", "old", "same")


POLICIES = [
    "",
    "-f",
    "-n",
    "-u",
    "-fn",
    "-un",
    "-b",
    "-bn",
    "-bu",
    "--backup",
    "--backup=none",
    "--backup=numbered",
    "--backup=t",
    "--backup=existing",
    "-b -S .bak",
    "-S .bak",
    "-b --suffix=a/b",
    "-b -S ''",
    "--remove-destination",
    "--remove-destination -n",
    "--remove-destination -u",
    "--remove-destination -b",
    "-p",
    "-a",
    "-l",
    "-lf",
    "-ln",
    "-lb",
    "-s",
    "-sf",
    "--attributes-only",
    "-p --attributes-only",
    "-P",
]


@pytest.mark.parametrize("policy", POLICIES)
def test_files(same: Same, policy: str) -> None:
    words = ["" if word == "''" else word for word in policy.split()]
    same(arrangements.overwrite, listing(words), *words, *SOURCES, "into")


def listing(words: list[str]) -> str:
    """-v, but not for links: GNU's cp lists also those that it then fails to make."""
    return "-r" if {"-l", "-s", "-sf"} & {*words} else "-rv"


@pytest.mark.parametrize(
    "policy",
    [
        "",
        "-f",
        "-n",
        "-u",
        "-b",
        "--backup=t",
        "--remove-destination",
        "-a",
        "-l",
        "-lf",
        "--attributes-only",
    ],
)
def test_tree(same: Same, policy: str) -> None:
    words = ["" if word == "''" else word for word in policy.split()]
    same(arrangements.overwrite, listing(words), *words, "tree", "into")


@pytest.mark.parametrize("policy", ["-r", "-rn", "-ru", "-rf", "-a"])
def test_tree_onto_itself(same: Same, policy: str) -> None:
    same(arrangements.overwrite, policy, "tree", ".")
    same(arrangements.overwrite, policy, "tree/", "into", "tree/..")


@pytest.mark.parametrize("control", ["none", "off", "numbered", "t", "existing", "nil", "wrong", ""])
def test_backups_from_the_environment(same: Same, control: str) -> None:
    same(arrangements.overwrite, "-b", "new", "into", environment={"VERSION_CONTROL": control})
    same(arrangements.overwrite, "--backup", "new", "into", environment={"VERSION_CONTROL": control})
    same(arrangements.overwrite, "--backup=t", "new", "into", environment={"VERSION_CONTROL": control})


@pytest.mark.parametrize("control", ["simple", "never"])
def test_simple_backup(cp: Ours, control: str) -> None:
    """GNU's cp 9.1 puts this one into the current directory."""
    arrangements.overwrite(cp.directory)
    for arguments, environment in (([f"--backup={control}"], {}), (["-b"], {"VERSION_CONTROL": control})):
        outcome = cp(*arguments, "new", "into", environment=environment)
        assert (outcome.status, outcome.stderr) == (0, [])
        assert outcome.tree["into/new~"]["content"][1][0][1].startswith(b"new: ")
        (cp.directory / "into" / "new~").unlink()


@pytest.mark.parametrize("suffix", [".old", "", "a/b"])
def test_suffix_from_the_environment(same: Same, suffix: str) -> None:
    same(arrangements.overwrite, "-b", "new", "into", environment={"SIMPLE_BACKUP_SUFFIX": suffix})
    same(arrangements.overwrite, "-b", "-S.arg", "new", "into", environment={"SIMPLE_BACKUP_SUFFIX": suffix})


@pytest.mark.parametrize("length", [250, 252, 254, 255])
def test_backup_of_a_long_name(same: Same, length: int) -> None:
    """One whose own name would be too long has a shorter one."""
    name = "x" * length

    def long(root: Path) -> None:
        (root / "new").write_text("new\n")
        (root / name).write_text("old\n")

    same(long, "-b", "-S.o", "new", name)
    same(long, "-b", "-n", "new", name)
    same(long, "-b", "-S.longer", "new", name)


def numbered(root: Path) -> None:
    arrangements.overwrite(root)
    for name in ("new.~1~", "new.~9~", "new.~10~", "new.~x~", "old~"):
        (root / "into" / name).write_text(name)


@pytest.mark.parametrize("policy", ["-b", "--backup=existing", "--backup=numbered"])
def test_next_number_of_a_backup(same: Same, policy: str) -> None:
    same(numbered, "-v", policy, *SOURCES, "into")


def test_backup_of_the_source_itself(same: Same) -> None:
    same(arrangements.files, "-fb", "a", "a")
    same(arrangements.files, "-b", "a", "a")
    same(arrangements.files, "-fvb", "a", "./a")
    same(arrangements.files, "-b", "a", "a~")
    same(arrangements.files, "--backup=simple", "a", "d", "-S", "x")


def test_backup_that_would_destroy_the_source(same: Same) -> None:
    def tilde(root: Path) -> None:
        (root / "a~").write_text("the source\n")
        (root / "a").write_text("the destination\n")

    same(tilde, "-b", "a~", "a")
    same(tilde, "--backup=numbered", "a~", "a")


@pytest.mark.parametrize("answer", [b"y\n", b"n\n", b"yes\n", b"\n", b"", b"Y\n", b"x\n"])
def test_question(same: Same, answer: bytes) -> None:
    declined = answer[:1].lower() != b"y"
    same.asked(arrangements.overwrite, "-i", "new", "into", stdin=answer, declined=declined)


def test_questions_in_order(same: Same) -> None:
    outcome = same.asked(arrangements.overwrite, "-i", *SOURCES, "into", stdin=b"y\nn\ny\n", declined=True)
    assert len(outcome.stderr) == 1, "one line: the answers' ends of line are not echoed"


@pytest.mark.parametrize("policy", ["-in", "-ni", "-if", "-fi", "-iu", "-ib", "-i --remove-destination"])
def test_question_and_another_policy(same: Same, policy: str) -> None:
    same.asked(arrangements.overwrite, *policy.split(), "new", "into", stdin=b"y\n")


@pytest.mark.parametrize("answer", [b"y\n", b"n\n"])
def test_question_about_a_file_that_cannot_be_written(same: Same, answer: bytes) -> None:
    def closed(root: Path) -> None:
        arrangements.overwrite(root)
        (root / "into" / "new").chmod(0o444)

    for how in ("-i", "-if"):
        same.asked(closed, how, "new", "into", stdin=answer, declined=answer == b"n\n")


def links_there(root: Path) -> None:
    """A destination that is a link: to a file, to nothing, to the source."""
    (root / "a").write_text("the source\n")
    (root / "other").write_text("another file\n")
    (root / "d").mkdir()
    (root / "to_other").symlink_to("other")
    (root / "dangling").symlink_to("nowhere")
    (root / "to_a").symlink_to("a")
    (root / "to_d").symlink_to("d")
    os.link(root / "a", root / "hard")
    os.link(root / "other", root / "other2")


@pytest.mark.parametrize("target", ["to_other", "dangling", "to_a", "to_d", "hard", "other", "other2"])
@pytest.mark.parametrize(
    "policy", ["", "-f", "-b", "-a", "-P", "-l", "-lf", "-s", "-n", "--remove-destination", "-T"]
)
def test_destination_that_is_a_link(same: Same, target: str, policy: str) -> None:
    same(links_there, *policy.split(), "a", target)


@pytest.mark.parametrize(
    "policy", ["", "-f", "-p", "-b", "-P", "-n", "-u", "-s", "--remove-destination", "-T"]
)
def test_through_a_link_to_nothing(same: Same, policy: str) -> None:
    """Only with POSIXLY_CORRECT, as GNU's cp."""
    same(links_there, *policy.split(), "a", "dangling", environment={"POSIXLY_CORRECT": "1"})
    same(links_there, *policy.split(), "a", "dangling")


def test_a_dry_run_through_a_link_to_nothing(cp: Ours, tmp_path: Path) -> None:
    links_there(tmp_path)
    outcome = cp("--dry-run", "a", "dangling", environment={"POSIXLY_CORRECT": "1"})
    assert (outcome.status, outcome.stderr) == (0, [])
    assert not (tmp_path / "nowhere").exists()


def test_a_link_in_a_tree_is_not_written_through(cp: Ours, tmp_path: Path) -> None:
    """Only one that is named: what has no name on the command line may be somebody else's."""
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "a").write_text("contents")
    (tmp_path / "t" / "s").mkdir(parents=True)
    (tmp_path / "t" / "s" / "a").symlink_to(tmp_path / "nowhere")
    assert cp("-r", "s", "t", environment={"POSIXLY_CORRECT": "1"}).status == 0
    assert not (tmp_path / "nowhere").exists()
    assert not (tmp_path / "t" / "s" / "a").is_symlink()


@pytest.mark.parametrize("source", ["to_other", "dangling", "to_a"])
@pytest.mark.parametrize("policy", ["", "-d", "-l", "-s", "-L", "-db", "-a", "-dl", "-lP", "-dlb"])
def test_source_that_is_a_link(same: Same, source: str, policy: str) -> None:
    same(links_there, *policy.split(), source, "a")
    same(links_there, *policy.split(), source, "other")
    same(links_there, *policy.split(), source, "hard")
    same(links_there, *policy.split(), source, source)


@pytest.mark.parametrize("policy", ["-uP", "-ud", "-u -r", "-u -a", "-u -b -P"])
def test_older_link_to_what_it_would_replace(same: Same, policy: str) -> None:
    def old_link(root: Path) -> None:
        links_there(root)
        os.utime(root / "to_a", (1e9, 1e9), follow_symlinks=False)

    same(old_link, *policy.split(), "to_a", "a")


@pytest.mark.parametrize("policy", ["", "-f", "--remove-destination", "-b", "-n", "-u"])
def test_attributes_only_keeps_contents(same: Same, policy: str) -> None:
    """What has none does not take the place of what has."""

    def specials(root: Path) -> None:
        (root / "s").mkdir()
        (root / "s" / "link").symlink_to("other")
        os.mkfifo(root / "s" / "fifo")
        for target in ("file", "link", "fifo"):
            (root / f"over_{target}").mkdir()
            for name in ("link", "fifo"):
                arrange_kind(root / f"over_{target}" / name, target)

    for target in ("file", "link", "fifo"):
        same(specials, "-aT", "--attributes-only", *policy.split(), "s", f"over_{target}")


def arrange_kind(path: Path, kind: str) -> None:
    if kind == "file":
        path.write_text("precious\n")
    elif kind == "link":
        path.symlink_to("precious")
    else:
        os.mkfifo(path)


@pytest.mark.parametrize("policy", ["--remove-destination", "-d", "-a", "-f", "-fL", "-b", "-l", "-s", "-sf"])
@pytest.mark.parametrize(
    ("source", "target"), [("to_a", "a"), ("a", "to_a"), ("to_a", "hard"), ("hard", "a")]
)
def test_the_source_is_not_removed(cp: Ours, policy: str, source: str, target: str) -> None:
    """Whatever is asked for and whatever is said, nobody's contents are lost."""
    links_there(cp.directory)
    cp(policy, source, target)
    assert (cp.directory / "a").read_text() == (cp.directory / "hard").read_text() == "the source\n"


def just_created(root: Path) -> None:
    for path in ("one/x", "two/x", "dest/other"):
        (root / path).parent.mkdir()
        (root / path).write_text(path)
    (root / "one" / "link").symlink_to("x")


@pytest.mark.parametrize("policy", ["", "-f", "-n", "-u", "--backup", "--backup=numbered", "-r", "-a", "-l"])
def test_just_created_is_not_overwritten(same: Same, policy: str) -> None:
    same(just_created, *policy.split(), "one/x", "two/x", "dest")


def test_just_created_link_is_not_written_through(same: Same) -> None:
    def attack(root: Path) -> None:
        for path in ("one", "two", "dest"):
            (root / path).mkdir()
        (root / "victim").write_text("must stay\n")
        (root / "one" / "x").symlink_to("../victim")
        (root / "two" / "x").write_text("attack\n")

    outcome = same(attack, "-d", "one/x", "two/x", "dest")
    assert outcome.status == 1
    assert outcome.tree["victim"]["content"] == (10, [(0, b"must stay\n")])


@pytest.mark.parametrize("policy", ["-u", "-a -u", "-r --update", "-ru"])
@pytest.mark.parametrize("seconds", [-1, 0, 1])
def test_update_by_time(same: Same, policy: str, seconds: int) -> None:
    """Sources older than, as old as and newer than what is there."""
    same(arrangements.overwrite, *policy.split(), "-v", "new", "into", after=set_times(seconds))


def set_times(seconds: int) -> Arrange:
    def apply(root: Path) -> None:
        os.utime(root / "into" / "new", ns=(OLD_NS, OLD_NS))
        os.utime(root / "new", ns=(OLD_NS + seconds * 10**9, OLD_NS + seconds * 10**9))

    return apply


class TestUpdateWhen:
    """--update=WHEN came with coreutils 9.3 (none-fail with 9.5): its documented meaning."""

    def arrange(self, root: Path) -> None:
        arrangements.overwrite(root)
        set_times(-1)(root)

    def test_all(self, cp: Ours) -> None:
        self.arrange(cp.directory)
        outcome = cp("--update=all", "new", "into")
        assert outcome.status == 0
        assert outcome.tree["into/new"]["content"] == outcome.tree["new"]["content"]

    @pytest.mark.parametrize("when", ["older", "none", "ol"])
    def test_leaves_a_newer_file_alone(self, cp: Ours, when: str) -> None:
        self.arrange(cp.directory)
        outcome = cp(f"--update={when}", "new", "into")
        assert (outcome.status, outcome.stderr) == (0, [])
        assert outcome.tree["into/new"]["content"] != outcome.tree["new"]["content"]

    def test_none_fail(self, cp: Ours) -> None:
        self.arrange(cp.directory)
        outcome = cp("--update=none-fail", "new", "into")
        assert (outcome.status, outcome.stderr) == (1, ["cp: not replacing 'into/new'"])
        assert outcome.tree["into/new"]["content"] != outcome.tree["new"]["content"]

    def test_last_one_wins(self, cp: Ours) -> None:
        self.arrange(cp.directory)
        outcome = cp("--update=none", "--update=all", "new", "into")
        assert outcome.tree["into/new"]["content"] == outcome.tree["new"]["content"]

    def test_unknown(self, cp: Ours) -> None:
        outcome = cp("--update=now", "new", "into")
        assert outcome.status == 1
        assert outcome.stderr[-1] == "cp: invalid argument \u2018now\u2019 for \u2018--update\u2019"
