"""--dry-run: says what a copy would say, with its status, and changes nothing. More is tested in Rust."""

from __future__ import annotations

import json
import os

import arrangements
import pytest
from cp_helpers import Arrange, Ours, snapshot

pytest_plugins = ["cp_fixtures"]


@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (arrangements.tree, "-a t new"),
        (arrangements.tree, "-r t file dest"),
        (arrangements.overwrite, "-ab new tree old into"),
        (arrangements.overwrite, "-u new tree old into"),
        (arrangements.overwrite, "-rn new tree into"),
        (arrangements.overwrite, "nowhere tree new new into"),
        (arrangements.overwrite, "-r tree into/new"),
        (arrangements.overwrite, "-r into into/into"),
        (arrangements.overwrite, "-T new into/tree"),
        (arrangements.special, "-r s new"),
        (arrangements.links, "-rL l ld gone loop dest"),
        (arrangements.links, "-s f ld/f"),
    ],
)
def test_it_says_what_a_copy_would(cp: Ours, arrange: Arrange, words: str) -> None:
    arrange(cp.directory)
    before = snapshot(cp.directory)
    rehearsed = cp("--dry-run", *words.split())
    assert rehearsed.tree == before
    done = cp("-v", *words.split())
    assert (rehearsed.status, rehearsed.stderr) == (done.status, done.stderr)
    assert set(rehearsed.stdout) >= set(done.stdout)
    assert [line for line in rehearsed.stdout if line.endswith("would be copied")]


@pytest.mark.parametrize("how", ["-a", "-au", "-an", "-au --update=none-fail", "-ab"])
def test_names_that_are_linked_already(cp: Ours, how: str) -> None:
    (cp.directory / "t").mkdir()
    (cp.directory / "t" / "a").write_text("a")
    os.link(cp.directory / "t" / "a", cp.directory / "t" / "b")
    cp("-a", "t", "new")
    rehearsed = cp("--dry-run", "--json", "-T", *how.split(), "t", "new")
    done = cp("--json", "-T", *how.split(), "t", "new")
    events = [map(json.loads, outcome.stdout) for outcome in (rehearsed, done)]
    reports = [event for found in events for event in found if event["event"] == "report"]
    assert len(reports) == 2
    for name in ("files", "hard_links", "skipped", "failures", "status"):
        assert reports[0][name] == reports[1][name], name


def test_json(cp: Ours) -> None:
    arrangements.files(cp.directory)
    *events, report = (json.loads(line) for line in cp("--dry-run", "--json", "a", "b", "d").stdout)
    assert {event["target"] for event in events} == {"d/a", "d/b"}
    assert report["dry_run"] is True
    assert (report["files"], report["bytes"]) == (2, 28)


def test_nobody_is_asked(cp: Ours) -> None:
    arrangements.overwrite(cp.directory)
    outcome = cp("--dry-run", "-i", "new", "into")
    assert (outcome.status, outcome.stderr) == (0, [])
    assert "'new' -> 'into/new'" in outcome.stdout
