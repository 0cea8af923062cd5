"""--exclude, --include and --exclude-from on the command line. The patterns are tested in Rust."""

from __future__ import annotations

import json
from pathlib import Path

import arrangements
import pytest
from cp_helpers import Ours, Outcome

pytest_plugins = ["cp_fixtures"]


def copied(outcome: Outcome, target: str = "new") -> set[str]:
    assert (outcome.status, outcome.stderr) == (0, [])
    return {name.removeprefix(f"{target}/") for name in outcome.tree if name.startswith(f"{target}/")}


def test_the_order_counts(cp: Ours) -> None:
    arrangements.tree(cp.directory)
    wanted = {"sub", "sub/deep", "sub/deep/leaf"}
    assert copied(cp("-a", "--include=*/", "--include", "leaf", "--exclude=*", "t", "new")) == wanted | {
        "empty"
    }
    outcome = cp("-a", "--include=leaf", "--exclude=/[!s]*", "--exclude=[sh]??*", "t", "none")
    assert copied(outcome, "none") == set()


def test_from_a_file(cp: Ours) -> None:
    arrangements.tree(cp.directory)
    (cp.directory / "list").write_bytes(b"# none of these:\n\nto_*\n/sub/\n\\#\ndang[k-m]ing")
    expected = {"empty", "file", "script"}
    assert copied(cp("-a", "--exclude-from=list", "t", "new")) == expected
    patterns = (cp.directory / "list").read_bytes()
    assert copied(cp("-a", "--exclude-from=-", "t", "other", stdin=patterns), "other") == expected
    # What comes before it counts first.
    outcome = cp("-a", "--include=to_file", "--exclude-from=list", "t", "third")
    assert copied(outcome, "third") == expected | {"to_file"}


def test_it_is_told(cp: Ours) -> None:
    arrangements.tree(cp.directory)
    outcome = cp("-a", "--json", "--exclude=sub", "--exclude=script", "t", "new")
    found = [json.loads(line) for line in outcome.stdout]
    excluded = [entry for entry in found if entry["event"] == "excluded"]
    assert sorted(excluded, key=lambda entry: entry["kind"]) == [
        {"event": "excluded", "kind": "directory", "source": "t/sub"},
        {"event": "excluded", "kind": "file", "source": "t/script"},
    ]
    (report,) = [entry for entry in found if entry["event"] == "report"]
    assert (report["excluded"], report["skipped"], report["status"]) == (2, 0, 0)
    assert "2 left out" in cp("-a", "--stats", "--exclude=s*", "t", "more").stdout


def test_a_name_that_is_not_text(cp: Ours) -> None:
    (cp.directory / "t").mkdir()
    for name in ("\udcff1", "\udcfe1", "\u00e41"):
        (cp.directory / "t" / name).touch()
    assert copied(cp("-r", "--exclude=\udcff?", "--exclude", "\u00e4*", "t", "new")) == {"\udcfe1"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--exclude=[a"], "cp: invalid pattern '[a': '[' without ']'"),
        (["--include=/"], "cp: invalid pattern '/': no name can match it"),
        (
            ["--exclude-from=list"],
            "cp: invalid pattern 'a\\': nothing to be taken literally after the last backslash",
        ),
        (["--exclude-from=nowhere"], "cp: 'nowhere': No such file or directory"),
    ],
)
def test_wrong(cp: Ours, arguments: list[str], said: str) -> None:
    arrangements.files(cp.directory)
    (cp.directory / "list").write_text("fine\na\\\n")
    outcome = cp(*arguments, "a", "new")
    assert (outcome.status, said in outcome.stderr) == (1, True), outcome.stderr
    assert "new" not in outcome.tree


def test_the_target_is_left_alone(cp: Ours, tmp_path: Path) -> None:
    """What is excluded and in the target stays there."""
    arrangements.overwrite(cp.directory)
    cp("-r", "--exclude=x", "tree", "into")
    assert (tmp_path / "into" / "tree" / "x").read_text() == "x was there\n"
    assert (tmp_path / "into" / "tree" / "y").read_text() == "y of the source\n"
