"""The command line itself: unknown options, abbreviations, values, help."""

from __future__ import annotations

import arrangements
import pytest
from cp_helpers import Ours, Same

pytest_plugins = ["cp_fixtures"]

WRONG = [
    "--unknown a new",
    "-y a new",
    "-ay a new",
    "-r-y a new",
    "--recursive=yes a new",
    "--no-preserve a new",
    "--no-preserve",
    "--backup=wrong a new",
    "--backup= a new",
    "--backup=n a new",
    "--sparse a new",
    "--sparse",
    "--suffix",
    "--target-directory",
    "-t",
    "-S",
    "-t d -t e a",
    "-td -te a",
    "--verbose=x a new",
    "--unknown=x a new",
    "--preserve=context a new",
    "-a --preserve=mode,context a new",
    "-bn a new",
    "--backup -n a new",
    "-n --backup=none a new",
]


@pytest.mark.parametrize("words", WRONG)
def test_wrong(same: Same, words: str) -> None:
    same(arrangements.files, *words.split())


@pytest.mark.parametrize(
    "word",
    [
        "--preserve=",
        "--preserve=colour",
        "--preserve=mode,colour",
        "--preserve=mode,",
        "--no-preserve=colour",
    ],
)
def test_wrong_attribute(same: Same, word: str) -> None:
    """We know one more."""
    gnu, ours = same.both(arrangements.files, word, "a", "new")
    assert (gnu.status, ours.status) == (1, 1)
    (own,) = (line for line in ours.stderr if "flags" in line)
    ours.stderr.remove(own)
    assert ours.stderr[:-1] == gnu.stderr[:-1]


@pytest.mark.parametrize("word", ["--re", "--no", "--p", "--s", "--ver"])
def test_ambiguous(same: Same, word: str) -> None:
    """We have more options, and so more possibilities."""
    gnu, ours = same.both(arrangements.files, word, "a", "new")
    assert (gnu.status, ours.status) == (1, 1)
    assert set(gnu.stderr[-1].split()) <= set(ours.stderr[-1].split())


FINE = [
    "--recur d new",
    "--arch d new",
    "--verb a new",
    "--pres a new",
    "--pre=mode a new",
    "--pre=mo,time a new",
    "--no-p=mode a new",
    "--no-cl a new",
    "--b a b",
    "--b=sim a b",
    "--f a b",
    "--rec d new",
    "--target=d a",
    "--target d a",
    "--backup=sim a b",
    "-rv d new",
    "-vr d new",
    "a -v new",
    "-r -r -r d new",
    "-p -p --preserve=mode --preserve=mode a new",
    "-n -n a b",
    "-i -n a b",
    "-S.x -S.y -b a b",
    "-bS.x a b",
    "--sparse=never --sparse=always a new",
    "-td a",
    "-rtd e a",
    "-T a new",
    "-TT a new",
    "-uu a new",
    "-vv a new",
    "-ll a new",
    "-ll -f a new",
]


@pytest.mark.parametrize("words", FINE)
def test_fine(same: Same, words: str) -> None:
    outcome = same(arrangements.files, *words.split())
    assert outcome.status == 0


def test_dash_dash(same: Same) -> None:
    same(arrangements.files, "a", "--", "-r")
    same(arrangements.files, "--", "--help")
    same(arrangements.files, "a", "--", "--help")


def test_help(cp: Ours) -> None:
    outcome = cp("--help")
    assert (outcome.status, outcome.stderr) == (0, [])
    text = "\n".join(outcome.stdout)
    for option in ("--archive", "--no-clobber", "--sparse", "--target-directory", "--one-file-system"):
        assert option in text


def test_version(cp: Ours) -> None:
    outcome = cp("--version")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert outcome.stdout[0].startswith("cp 0.")


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_help_comes_before_what_is_wrong(cp: Ours, word: str) -> None:
    assert cp(word, "--sparse=auto", "a", "b", "c").status == 0
