"""Symbolic links as sources: -P -L -H -d and their order; -l and -s instead of copies."""

from __future__ import annotations

import os
from pathlib import Path

import arrangements
import pytest
from cp_helpers import Ours, Same

pytest_plugins = ["cp_fixtures"]

FOLLOW = ["", "-P", "-L", "-H", "-d", "-PL", "-LP", "-HL", "-LH", "-dL", "-La", "-aH"]


@pytest.mark.parametrize("follow", FOLLOW)
def test_on_the_command_line(same: Same, follow: str) -> None:
    same(arrangements.links, *follow.split(), "l", "f", "f2", "ld", "gone", "loop", "dest")
    same(arrangements.links, *follow.split(), "ld/", "dest")


@pytest.mark.parametrize("follow", FOLLOW)
def test_in_a_tree(same: Same, follow: str) -> None:
    same(arrangements.links, "-r", *follow.split(), "ld", "d", "dest")
    same(arrangements.links, "-r", *follow.split(), "ld/", "new")
    same(arrangements.tree, "-r", *follow.split(), "t", "new")


@pytest.mark.parametrize("follow", ["-rL", "-aL", "-rH", "-rP"])
def test_a_link_to_its_own_parent(same: Same, follow: str) -> None:
    def round_and_round(root: Path) -> None:
        (root / "t" / "sub").mkdir(parents=True)
        (root / "t" / "file").write_text("file\n")
        (root / "t" / "sub" / "up").symlink_to("..")

    same.saying(round_and_round, follow, "t", "new")


@pytest.mark.parametrize(
    "how", ["-l", "-lP", "-lL", "-lH", "-ld", "-lr", "-lrL", "-lrP", "-lrH", "-la", "-lf", "-lv", "-lp"]
)
def test_hard_links(same: Same, how: str) -> None:
    same(arrangements.links, how, "f", "l", "gone", "d", "ld", "dest")


@pytest.mark.parametrize("how", ["-s", "-sr", "-sf", "-sL", "-sP"])
def test_symbolic_links(same: Same, how: str) -> None:
    same(arrangements.links, how, "f", "new")
    same(arrangements.links, how, "l", "new")
    same(arrangements.links, how, "f", "gone", "d", "dest")


def test_symbolic_links_with_absolute_sources(same: Same, tmp_path: Path) -> None:
    (tmp_path / "tree" / "sub").mkdir(parents=True)
    (tmp_path / "tree" / "sub" / "file").touch()
    same(arrangements.links, "-rs", str(tmp_path / "tree"), "new")
    same(arrangements.links, "-s", str(tmp_path / "tree" / "sub" / "file"), "dest")


@pytest.mark.parametrize("how", ["-sl", "-ls", "-rsl"])
def test_both_kinds_of_links(same: Same, how: str) -> None:
    same(arrangements.links, how, "f", "new")


@pytest.mark.parametrize("how", ["-r", "-a", "-rl", "-rL", "-rf", "-a --remove-destination", "-rb"])
def test_a_directory_over_a_link_to_one(same: Same, how: str) -> None:
    """Never through a link: what it points to is left alone unless GNU's cp uses it, too."""

    def linked(root: Path) -> None:
        (root / "s" / "sub").mkdir(parents=True)
        (root / "s" / "sub" / "file").write_text("file\n")
        (root / "outside").mkdir()
        (root / "dest" / "s").mkdir(parents=True)
        (root / "dest" / "s" / "sub").symlink_to("../../outside")

    same(linked, *how.split(), "s", "dest")


@pytest.mark.parametrize("how", ["-r", "-a", "-rL", "-rf"])
def test_nothing_is_written_through_a_link_inside_a_tree(cp: Ours, how: str) -> None:
    """Where GNU's cp writes through, into whatever the link has been made to point to."""
    root = cp.directory
    (root / "s").mkdir()
    (root / "s" / "file").write_text("file\n")
    (root / "s" / "other").write_text("other\n")
    (root / "outside").write_text("outside\n")
    (root / "dest" / "s").mkdir(parents=True)
    (root / "dest" / "s" / "file").symlink_to("../../outside")
    (root / "dest" / "s" / "other").symlink_to("nowhere")
    outcome = cp(how, "s", "dest")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert (root / "outside").read_text() == "outside\n"
    for name in ("file", "other"):
        assert not (root / "dest" / "s" / name).is_symlink()
        assert (root / "dest" / "s" / name).read_text() == f"{name}\n"


def test_links_have_times_and_owners(same: Same) -> None:
    def owned(root: Path) -> None:
        arrangements.links(root)
        if os.geteuid() == 0:
            os.chown(root / "l", 12, 34, follow_symlinks=False)

    for how in ("-P", "-d", "-a", "-pP", "-P --preserve=timestamps"):
        same(owned, *how.split(), "l", "dest")


def apart(root: Path) -> None:
    """A tree in which two names are one file, and a copy of it in which they are two."""
    for top in ("t", "into/t"):
        (root / top).mkdir(parents=True)
        for name in ("one", "two"):
            (root / top / name).write_text(f"{top}/{name}")
    (root / "t" / "two").unlink()
    os.link(root / "t" / "one", root / "t" / "two")


@pytest.mark.parametrize("how", ["-a", "-a --in-place", "-a --attributes-only", "-a --backup"])
def test_hard_links_where_files_are(cp: Ours, how: str) -> None:
    apart(cp.directory)
    done = cp(*how.split(), "t", "into")
    assert (done.status, done.stderr) == (0, [])
    one, two = (cp.directory / "into" / "t" / name for name in ("one", "two"))
    assert one.stat().st_ino == two.stat().st_ino


def linked_directory(root: Path) -> None:
    (root / "f").write_text("f")
    (root / "d").mkdir()
    (root / "d" / "f").mkdir()
    (root / "ld").symlink_to("d")
    (root / "loop").symlink_to("loop")


@pytest.mark.parametrize(
    "form",
    [
        "-T --preserve=links f ld",
        "-l f d",
        "-s f d",
        "-u f d",
        "-u -T f d",
        "-f f loop",
        "f loop",
        "-al loop f",
        "-as f d/f",
    ],
)
def test_what_is_in_the_way(same: Same, form: str) -> None:
    same(linked_directory, *form.split())


def test_a_name_in_two_sources(same: Same) -> None:
    def arrange(root: Path) -> None:
        (root / "t").mkdir()
        (root / "t" / "one").write_text("one")
        os.link(root / "t" / "one", root / "t" / "two")
        (root / "dest").mkdir()

    same(arrange, "-a", "t", "t/one", "dest")


@pytest.mark.parametrize("how", ["-sn", "-su"])
def test_a_link_that_is_not_to_be_made_is_not_judged(same: Same, how: str) -> None:
    same(arrangements.overwrite, *how.split(), "old", "into")


@pytest.mark.parametrize("form", ["-rsT S .", "-rs S/. .", "-rs S/sub .", "-rsT S dest"])
def test_links_to_a_relative_path_in_the_current_directory(same: Same, form: str) -> None:
    def flat(root: Path) -> None:
        for name in ("S", "S/sub", "dest"):
            (root / name).mkdir()
        (root / "S" / "f").write_text("f")

    same.saying(flat, *form.split())
    expected, found = same.both(flat, *form.split())
    links = [
        {name for name, entry in outcome.tree.items() if "target" in entry} for outcome in (expected, found)
    ]
    assert links[0] == links[1]


TWO_NAMES = [
    "-P a b",
    "-d a b",
    "-a a b",
    "-P a a",
    "-Pb a b",
    "-Pf a b",
    "-P --remove-destination a b",
    "-Pu a b",
    "-L f a",
    "-aT S D",
]


@pytest.mark.parametrize("form", TWO_NAMES)
def test_two_names_of_one_link(same: Same, form: str) -> None:
    def linked(root: Path) -> None:
        (root / "f").write_text("f")
        for name in ("S", "D"):
            (root / name).mkdir()
        (root / "a").symlink_to("f")
        for name in ("b", "S/a", "D/a"):
            os.link(root / "a", root / name, follow_symlinks=False)

    same(linked, *form.split())


@pytest.mark.parametrize("there", ["X", "Y", "X Y", "X Y older", "X Y linked"])
@pytest.mark.parametrize("how", ["-au", "-an", "-ru --preserve=links"])
def test_names_of_a_file_that_is_there(same: Same, how: str, there: str) -> None:
    """With `-u` they become names of it, also where they were files of their own; with `-n` they do not."""

    def linked(root: Path) -> None:
        for name in ("S", "D", "D/S"):
            (root / name).mkdir()
        (root / "S" / "X").write_text("one file")
        os.link(root / "S" / "X", root / "S" / "Y")

    def as_old(root: Path) -> None:
        names = [name for name in there.split() if len(name) == 1]
        for name in names:
            (root / "D" / "S" / name).write_text("one file")
            os.utime(root / "D" / "S" / name, ns=(10**18, root.joinpath("S/X").stat().st_mtime_ns))
        if there.endswith("older"):
            os.utime(root / "D" / "S" / "Y", ns=(10**18, 10**18))
        if there.endswith("linked"):
            (root / "D" / "S" / "Y").unlink()
            os.link(root / "D" / "S" / "X", root / "D" / "S" / "Y")

    same(linked, *how.split(), "S", "D", after=as_old)


@pytest.mark.parametrize("answer", [b"n\ny\n", b"y\nn\n", b"n\nn\n", b"y\ny\n"])
def test_a_name_that_was_declined_is_not_up_to_date(cp: Ours, answer: bytes) -> None:
    root = cp.directory
    for name in ("s", "d"):
        (root / name).mkdir()
    (root / "s" / "a").write_text("new")
    os.link(root / "s" / "a", root / "s" / "b")
    for name in ("a", "b"):
        (root / "d" / name).write_text("old")
        os.utime(root / "d" / name, ns=(0, 0))
    tree = cp("-aiu", "s/.", "d", stdin=answer).tree
    said_yes = answer.count(b"y")
    assert sorted(tree[f"d/{name}"]["content"] == tree["s/a"]["content"] for name in ("a", "b")) == sorted(
        [said_yes > 0, said_yes > 1]
    )


@pytest.mark.parametrize("how", ["-lu", "-su", "-luf", "-suf", "-lui", "-lub", "-ln", "-lnf"])
@pytest.mark.parametrize("source", ["new", "old", "same"])
def test_links_and_older_files(same: Same, how: str, source: str) -> None:
    def absolute(root: Path) -> None:
        arrangements.overwrite(root)
        (root / "links").mkdir()
        (root / "links" / source).symlink_to("../into/new")

    same(absolute, *how.split(), source, "into", stdin=b"y\n")
