"""`proactor cp --plan`, `--shard`, `--finish`: what comes of it is what `cp -a` makes, whatever happens."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import arrangements
import pytest
from capabilities import needs
from cp_helpers import (
    DEADLINE_S,
    Ours,
    Outcome,
    Runner,
    check,
    differences,
    make_old,
    outcome_of,
    proactor_command,
    wait_until,
)

pytest_plugins = ["cp_fixtures"]

# Written as zeros, it takes long enough to be met in the middle.
LARGE_BYTES = 64 << 20


def big(root: Path) -> None:
    """`t`, with enough in it for some shards, and names that are not UTF-8."""
    arrangements.tree(root)
    many = root / "t" / "many"
    many.mkdir()
    for number in range(200):
        (many / f"{number}").write_text(f"{number}\n" * number)
    (many / os.fsdecode(b"\xff\n")).write_text("odd")
    os.link(root / "t" / "file", many / "100x")
    os.mkfifo(root / "t" / "fifo")


def plan(cp: Ours, *arguments: str, shards: int = 5) -> int:
    """How many shards there are."""
    done = cp("--json", "--plan=plan.json", f"--shards={shards}", *arguments)
    check([done.status, *done.stderr], [0])
    (event,) = map(json.loads, done.stdout)
    assert event["event"] == "plan"
    assert event["shards"] == len(json.loads((cp.directory / "plan.json").read_text())["shards"])
    return int(event["shards"])


def report_of(outcome: Outcome) -> dict[str, Any]:
    (report,) = (event for event in map(json.loads, outcome.stdout) if event["event"] == "report")
    assert isinstance(report, dict)
    return report


@needs("GNU cp")
def test_as_cp_does(cp: Ours, runner: Runner, tmp_path_factory: pytest.TempPathFactory) -> None:
    gnu = tmp_path_factory.mktemp("gnu")
    for root in (gnu, cp.directory):
        big(root)
        make_old(root)
    shards = plan(cp, "-a", "t", "dest")
    assert shards > 3
    order = [*range(shards), 1]
    random.Random(5).shuffle(order)
    for shard in order:
        assert cp("--shard", f"{shard}", "plan.json").status == 0
    report = report_of(cp("--json", "--finish", "plan.json"))
    (cp.directory / "plan.json").unlink()
    expected = outcome_of(runner.run(gnu, "cp", "-a", "t", "dest"), gnu)
    found = outcome_of(runner.run(cp.directory, "true"), cp.directory)
    check(differences(expected, found), [])
    whole = report_of(cp("--json", "-a", "t", "whole"))
    for key in ("files", "directories", "symlinks", "hard_links", "specials", "bytes", "failures", "status"):
        assert report[key] == whole[key], key


def test_wishes_of_the_user_about_backups_are_none_of_the_plans(cp: Ours) -> None:
    arrangements.tree(cp.directory)
    count = plan(cp, "-a", "t", "new")
    for step in [f"--shard={number}" for number in range(count)] + ["--finish"]:
        assert cp(step, "plan.json", environment={"SIMPLE_BACKUP_SUFFIX": ".old"}).status == 0


def test_without_metadata(cp: Ours) -> None:
    big(cp.directory)
    # Which diff does not know what to make of.
    (cp.directory / "t" / "fifo").unlink()
    for shard in range(plan(cp, "-rT", "t", "new")):
        assert cp("--shard", f"{shard}", "plan.json", "--jobs=1").status == 0
    assert cp("--finish", "plan.json").status == 0
    assert cp("-r", "t", "whole").status == 0
    # Everything but the times, which nobody asked for.
    command = ["diff", "-r", "--no-dereference", "new", "whole"]
    compared = subprocess.run(command, cwd=cp.directory, stdout=subprocess.PIPE, text=True, check=False)
    check([compared.stdout, compared.returncode], ["", 0])


def test_killed_in_the_middle(cp: Ours) -> None:
    top = cp.directory / "top"
    top.mkdir()
    with (top / "large").open("wb") as large:
        large.truncate(LARGE_BYTES)
    (top / "small").write_text("small")
    make_old(cp.directory)
    shards = plan(cp, "-a", "--sparse=never", "top", "copy", shards=2)
    (tree,) = cp.directory.glob("copy.partial-*")
    with subprocess.Popen(proactor_command("cp", "--shard=0", "plan.json"), cwd=cp.directory) as killed:
        wait_until(lambda: any(path.stat().st_size for path in tree.glob("large*")), killed)
        killed.send_signal(signal.SIGKILL)
    left = [path.name for path in tree.iterdir()]
    assert left
    assert "large" not in left, "it was not whole"
    done = cp("--finish", "plan.json")
    assert done.status == 1
    assert done.stderr == ["cp: shards are not done: " + ("0-1" if shards == 2 else "0")]
    for shard in range(shards):
        assert cp("--shard", f"{shard}", "plan.json").status == 0
    assert cp("--finish", "plan.json").status == 0
    assert sorted(path.name for path in cp.directory.iterdir()) == ["copy", "plan.json", "top"]
    assert sorted(path.name for path in (cp.directory / "copy").iterdir()) == ["large", "small"]
    assert (cp.directory / "copy" / "large").stat().st_size == LARGE_BYTES


def test_interrupted(cp: Ours) -> None:
    """The same by Ctrl-C: then nothing in the middle is left."""
    top = cp.directory / "top"
    top.mkdir()
    with (top / "large").open("wb") as large:
        large.truncate(LARGE_BYTES)
    plan(cp, "-a", "--sparse=never", "top", "copy", shards=1)
    (tree,) = cp.directory.glob("copy.partial-*")
    with subprocess.Popen(
        proactor_command("cp", "--shard=0", "plan.json"),
        cwd=cp.directory,
        stderr=subprocess.PIPE,
        text=True,
    ) as ended:
        wait_until(lambda: any(path.stat().st_size for path in tree.glob("large*")), ended)
        ended.send_signal(signal.SIGINT)
        _, said = ended.communicate(timeout=DEADLINE_S)
    assert ended.returncode == 130
    assert f"the copied part of a new tree is in '{tree}'; continue it with the same command" in said
    assert list(tree.iterdir()) == []


def test_failures_are_reported(cp: Ours) -> None:
    big(cp.directory)
    shards = plan(cp, "-a", "t", "new", shards=1)
    (tree,) = cp.directory.glob("new.partial-*")
    (tree / "file").mkdir()
    failed = cp("--shard=0", "plan.json")
    place = cp.directory / "new" / "file"
    assert (shards, failed.status) == (1, 1)
    assert failed.stderr == [f"cp: cannot give '{place}' its name: Is a directory"]
    report = report_of(cp("--json", "--finish", "plan.json"))
    # The shard's, and that this directory has nothing in the source to have its metadata from.
    assert (report["status"], report["failures"]) == (1, 2)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--plan=p", "t", "new"], "cannot copy in shards without recursion"),
        (["--plan=p", "-a", "t/file", "new"], "'{}/t/file': only directories can be copied in shards"),
        (["--plan=p", "-aT", "t", "dest"], "'{}/dest': the target of a copy in shards exists already"),
        (["--plan=p", "-a", "t", "t/sub/new"], "'{}/t': cannot copy a directory into itself"),
        (["--plan=p", "-a", "t", "t/sub", "dest"], "one directory at a time is copied in shards"),
        (["--shard=0", "missing"], "'missing': No such file or directory"),
        (["--shard=0", "t/file"], "'t/file': not the plan of a copy: expected value at line 1 column 1"),
        (["--shard=9", "plan.json"], "there is no shard 9: they are 0 to 0"),
        (
            ["--shard=0", "-r", "plan.json"],
            "options on how files are copied belong to --plan, not to --shard",
        ),
        (["--plan=p", "-a", "--files-from=plan.json", "dest"], "one directory at a time is copied in shards"),
        (
            ["--shard=0", "--files-from=t/file", "plan.json"],
            "options on how files are copied belong to --plan",
        ),
        (["--shard=0", "--finish", "plan.json"], "--plan, --shard and --finish are mutually exclusive"),
        (["--shard=-1", "plan.json"], "invalid argument"),
        (["--shards=3", "-a", "t", "new"], "--shards goes with --plan or --ray"),
        (["--ray=auto", "--plan=p", "-a", "t", "new"], "with --ray there is no --plan and no --shard"),
    ],
)
def test_refused(cp: Ours, arguments: list[str], problem: str) -> None:
    arrangements.tree(cp.directory)
    plan(cp, "-a", "dest", "copy")
    before = set(cp.directory.iterdir())
    refused = cp(*arguments)
    assert refused.status == 1
    assert any(problem.format(cp.directory) in line for line in refused.stderr), refused.stderr
    assert set(cp.directory.iterdir()) == before
