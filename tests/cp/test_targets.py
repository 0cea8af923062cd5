"""What is copied where: the forms of the command, missing sources, trailing slashes, what is refused."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import arrangements
import pytest
from capabilities import needs
from cp_helpers import Ours, Runner, Same

pytest_plugins = ["cp_fixtures"]

FORMS = [
    "a new",
    "a b",
    "a d",
    "a b d",
    "a b -t d",
    "-td a b",
    "--target-directory=d a",
    "--target-directory d a",
    "-t d",
    "-t a b",
    "-t nowhere b",
    "-T a b",
    "-T a d",
    "-T a",
    "-T a b c",
    "-T -t d a",
    "-T a d/",
    "-rT d e",
    "-rT d new",
    "a b c",
    "a b nowhere",
    "a nowhere/new",
    "a nowhere/",
    "a b/",
    "a a/b",
    "a/ new",
    "a/b new",
    "nowhere new",
    "nowhere a d",
    "a nowhere b d",
    "nowhere/ d",
    "'' new",
    "a ''",
    "a",
    "",
    "d new",
    "d e",
    "a d e",
    "-r d new",
    "-r d new/",
    "-r d/ new",
    "-r d/. new",
    "-r d/. e",
    "-r d/. d/inside e",
    "-r d/inside d/. e",
    "-r d e",
    "-r d/ e/",
    "-r d a",
    "-r d e/nowhere/new",
    "-R d a e",
    "-r a b d e",
    "--recursive d new",
    "a -r new",
    "-- a new",
    "-r -- d new",
    "-r d d/new/newer",
    "-r d .",
    "a .",
    "a ./a",
    "a a",
    "-f a a",
    "a a e",
    "a ./a e",
    "-r d d e",
    "-r d ./d/ e",
    "a d/../a e",
    "a b a e",
    "-r d/inside d e",
    "--parents d/inside e",
    "--parents d/inside new",
    "--parents d/inside nowhere",
    "--parents -T d/inside new",
    "--parents ./d/inside e",
    "--parents d//inside a e",
    "--parents -r d e",
    "--parents -r d/ e",
    "--parents d/../a e",
    "--parents d/../d/inside e",
    "--parents -r d d/inside e",
    "--parents nowhere/a e",
    "--parents a/b e",
    "--strip-trailing-slashes a/ b/ e",
    "--strip-trailing-slashes -r d/ e",
    "a b -S",
    "-v a new",
    "-v a b e",
    "-rv d new",
    "-rv d e",
    "-rv d/ e/",
    "-rv d/// e//",
    "-v d///inside e//",
    "-v d//inside e//new",
    "-v -t e// a",
    "-v nowhere a e",
    "/dev/null new",
    "/dev/null e",
    "a /dev/null",
    "-v a /dev/null",
]


@pytest.mark.parametrize("form", FORMS)
def test_form(same: Same, form: str) -> None:
    same(arrangements.files, *split(form))


@pytest.mark.parametrize(
    "form",
    [
        *("-rT d to_e/", "-aT d to_e//", "-rT d to_e", "-rvT d to_e/.", "-T a to_e/", "-r d to_e/"),
        *("-rvT d .", "-rvT d ./", "-rvT d e/.", "-rvT d e/./", "-rvT d e/..", "-rT d no_such/"),
        *("-rvT d to_e/", "-vT d/nothing to_e/"),
    ],
)
def test_directory_by_another_name(same: Same, form: str) -> None:
    def linked(root: Path) -> None:
        arrangements.files(root)
        for name in ("e", "a", "nothing"):
            (root / f"to_{name}").symlink_to(name)

    same(linked, *split(form))


@pytest.mark.parametrize("target", ["no/", "no/new"])
@pytest.mark.parametrize(
    "form",
    [
        *("a", "-f a", "-l a", "-lf a", "-s a", "-sf a", "-r d", "-lr d", "-sr d", "-a a"),
        *("to_a", "-P to_a", "-r to_a", "-lP to_a", "-lL to_a", "-rL to_a"),
        *("-r fifo", "-r /dev/null", "/dev/null"),
    ],
)
def test_where_no_directory_is(same: Same, form: str, target: str) -> None:
    """The words are those for what it would have become."""

    def special(root: Path) -> None:
        arrangements.files(root)
        (root / "to_a").symlink_to("a")
        os.mkfifo(root / "fifo")

    same(special, *split(form), target)


@pytest.mark.parametrize(
    "form", ["d/inside e", "-r d e", "-n d/inside e", "-f d/inside e", "d/inside d/deeper/x a e"]
)
def test_parents_that_are_files(same: Same, form: str) -> None:
    def in_the_way(root: Path) -> None:
        arrangements.files(root)
        (root / "e" / "d").write_text("no directory")

    same(in_the_way, "--parents", *split(form))


@pytest.mark.parametrize(
    "form", ["-r d d", "-r d d/new", "-r . e", "-r ./. e", "-r d/. d/new", "-a . d/inside/.."]
)
def test_into_itself(same: Same, form: str) -> None:
    same.saying(arrangements.files, *split(form))


def split(form: str) -> list[str]:
    return ["" if word == "''" else word for word in form.split()]


def directory_over_file(root: Path) -> None:
    arrangements.files(root)
    (root / "e" / "d").write_text("not a directory\n")
    (root / "e" / "a").mkdir()


@pytest.mark.parametrize(
    "form", ["-r d e", "a e", "-r a d b e", "-fr a d e", "-rT e a", "-r --remove-destination d e"]
)
def test_kinds_that_do_not_fit(same: Same, form: str) -> None:
    same(directory_over_file, *form.split())


def nested_conflicts(root: Path) -> None:
    for path in ("s/ok", "s/x/in", "t/s/x"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(path)
    (root / "s" / "y").write_text("a file\n")
    (root / "t" / "s" / "y" / "deep").mkdir(parents=True)


def test_conflicts_inside_a_tree_do_not_stop_the_rest(same: Same) -> None:
    outcome = same(nested_conflicts, "-r", "s", "t")
    assert outcome.status == 1
    assert "t/s/ok" in outcome.tree


def names(root: Path) -> None:
    (root / "n").mkdir()
    odd = [
        "space in it",
        "it's",
        'quo"te',
        "new\nline",
        "tab\t",
        "back\\slash",
        "-dash",
        "uml\u00e4ut",
        "\udcff\udcfe",
        "*",
        "x" * 255,
    ]
    for name in odd:
        (root / "n" / name).write_text(name, errors="surrogateescape")


def test_names_are_any_bytes(same: Same) -> None:
    outcome = same(names, "-rv", "n", "new")
    assert len(outcome.tree) == 24


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_quoted_names(same: Same, locale: str) -> None:
    plain = ["$x", 'a"b', "it's", "it's $5", "it's \\", "back\\slash", "", "''"]
    odd = ["new\nline", "tab\tx", "uml\u00e4ut", "\udcff", "a'b\nc", "\n'", "#it's", "x#'"]
    same(arrangements.files, *plain, *odd, "e", environment={"LC_ALL": locale})


def make_deep(root: Path) -> None:
    """A directory deeper than PATH_MAX, with a file at its end."""
    here = os.open(root, os.O_PATH)
    try:
        for _ in range(30):
            os.mkdir("d" * 200, dir_fd=here)
            below = os.open("d" * 200, os.O_PATH, dir_fd=here)
            os.close(here)
            here = below
        os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    finally:
        os.close(here)


def depth(root: Path) -> tuple[int, list[str]]:
    """How many directories deep `root` goes, and what is at the end."""
    here, found = os.open(root, os.O_PATH), 0
    try:
        while True:
            try:
                below = os.open("d" * 200, os.O_PATH, dir_fd=here)
            except FileNotFoundError:
                return found, os.listdir(f"/proc/self/fd/{here}")
            os.close(here)
            here, found = below, found + 1
    finally:
        os.close(here)


def test_tree_deeper_than_the_longest_path(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    make_deep(tmp_path / "source")
    done = runner.proactor(tmp_path, "cp", "-a", "source", "copy")
    assert (done.returncode, done.stderr) == (0, "")
    assert depth(tmp_path / "copy") == (30, ["leaf"])


def test_into_itself_without_its_journal(cp: Ours) -> None:
    (cp.directory / "file").write_text("file")
    # With it there is a journal from the beginning.
    done = cp("-a", "--resume", ".", "sub")
    assert (done.status, sorted(done.tree)) == (1, ["file", "sub", "sub/file"])


@needs("root", "btrfs quota")
def test_into_itself_where_new_names_are_not_listed(runner: Runner, tmp_path: Path) -> None:
    """On Btrfs an open directory lists what was in it when it was opened."""
    image, disk = tmp_path / "image", tmp_path / "disk"
    image.touch()
    os.truncate(image, 128 << 20)
    subprocess.run(["mkfs.btrfs", "-q", image], check=True)
    disk.mkdir()
    subprocess.run(["mount", "-o", "loop", image, disk], check=True)
    try:
        (disk / "a" / "b").mkdir(parents=True)
        for target in ("a", "a/b/new"):
            done = runner.proactor(disk, "cp", "-r", "a", target)
            assert (done.returncode, done.stderr.count("into itself")) == (1, 1)
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.parametrize("target", ["d", "d/", "d/.", ".", "b/", "nowhere/"])
@pytest.mark.parametrize("how", ["-nT", "-uT", "-T", "-nTv"])
def test_a_directory_stays_where_files_do(same: Same, how: str, target: str) -> None:
    same.saying(arrangements.files, how, "a", target)
