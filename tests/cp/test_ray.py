"""`proactor cp --ray` on a real cluster on this machine: several workers, one of them killed on the way."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from capabilities import needs
from cp_helpers import DEADLINE_S, make_old, proactor_command, snapshot, wait_until
from test_cp_shards import LARGE_BYTES, big

pytestmark = needs("ray")

WORKERS = 4


@pytest.fixture(scope="module", autouse=True)
def no_token() -> Iterator[None]:
    """One in the home of whoever runs the tests: `ray start` would ask for it, and nobody would show it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        yield


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster's."""
    # Its sockets' paths have 107 bytes at most.
    place = Path(tempfile.mkdtemp(prefix="ray", dir="/tmp"))
    command = [
        *(sys.executable, "-c", "from ray.scripts.scripts import main; main()", "start", "--head", "--block"),
        *("--port=0", f"--num-cpus={WORKERS}", "--include-dashboard=false", "--disable-usage-stats"),
        *("--object-store-memory=80000000", f"--temp-dir={place}", "--node-ip-address=127.0.0.1"),
    ]
    with (place / "said").open("w") as said:
        # What it starts, it ends.
        head = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
    try:
        cluster = place / "ray_current_cluster"
        deadline = time.monotonic() + DEADLINE_S
        while not cluster.exists() or not cluster.read_text():
            assert head.poll() is None, (place / "said").read_text()
            assert time.monotonic() < deadline, (place / "said").read_text()
            time.sleep(0.05)
        yield cluster.read_text().strip()
    finally:
        head.terminate()
        head.wait(DEADLINE_S)
        shutil.rmtree(place, ignore_errors=True)


def source(root: Path) -> None:
    big(root)
    with (root / "t" / "large").open("wb") as large:
        large.truncate(LARGE_BYTES)
    make_old(root)


def test_a_worker_is_killed(address: str, tmp_path: Path) -> None:
    source(tmp_path)
    command = proactor_command("cp", "-a", "--sparse=never", "--json", f"--ray={address}", "t", "copy")
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        os.kill(writer(tmp_path, process), signal.SIGKILL)
        out, said = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, said) == (0, "")
    *shards, report = map(json.loads, out.splitlines())
    assert len(shards) > WORKERS
    assert sorted(event["shard"] for event in shards) == list(range(shards[0]["shards"]))
    assert report["event"] == "report"
    assert sum(event["files"] for event in shards) == report["files"] == 206
    check_copy(tmp_path)


def test_the_time_is_that_of_all_steps(address: str, tmp_path: Path) -> None:
    source(tmp_path)
    command = proactor_command("cp", "-a", "--sparse=never", "--json", f"--ray={address}", "t", "copy")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stderr) == (0, "")
    *shards, report = map(json.loads, done.stdout.splitlines())
    assert report["seconds"] >= max(event["seconds"] for event in shards)


def test_interrupted_and_gone_on_with(address: str, tmp_path: Path) -> None:
    source(tmp_path)
    command = proactor_command("cp", "-a", "--sparse=never", "--json", f"--ray={address}", "t", "copy")
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        writer(tmp_path, process)
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, said
    assert json.loads(out.splitlines()[-1]) == {"event": "error", "message": "interrupted"}
    go_on = said.split("to go on: proactor ")[1].split()
    done = subprocess.run(
        proactor_command(*go_on), cwd=tmp_path, stderr=subprocess.PIPE, text=True, timeout=DEADLINE_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    check_copy(tmp_path)


def test_shards_that_cannot_be_done(address: str, tmp_path: Path) -> None:
    """Each is an error, in words and as an event."""
    source(tmp_path)
    command = proactor_command("cp", "-a", "--plan=plan.json", "--shards=2", "t", "copy")
    subprocess.run(command, cwd=tmp_path, check=True, stdout=subprocess.PIPE)
    (tmp_path / "t").rename(tmp_path / "elsewhere")
    command = proactor_command("cp", "--json", f"--ray={address}", "--finish", "plan.json")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S)
    assert done.returncode == 1
    events = sorted((json.loads(line) for line in done.stdout.splitlines()), key=lambda each: each["message"])
    assert [event["event"] for event in events] == ["error"] * len(events)
    assert [event["message"].split(":")[0] for event in events] == ["shard 0", "shard 1"][: len(events)]
    assert events
    assert all(f"proactor cp: {event['message']}\n" in done.stderr for event in events)


def test_no_machine_is_large_enough(address: str, tmp_path: Path) -> None:
    source(tmp_path)
    command = proactor_command("cp", "-a", f"--ray={address}", f"--jobs={WORKERS + 1}", "t", "copy")
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        warning = f"warning: no machine of the cluster has {WORKERS + 1} CPUs (--jobs): shards wait for one\n"
        assert process.stderr.readline() == f"proactor cp: {warning}"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130, said


def writer(place: Path, process: subprocess.Popen[str]) -> int:
    """The process of the worker that is in the middle of the large file, as its attempt's record has it."""
    wait_until(
        lambda: any(path.stat().st_size for path in place.glob("copy.partial-*/large.partial-*")), process
    )
    records = [json.loads(path.read_text()) for path in place.glob("copy.shards-*/*.attempt")]
    writing = [record["pid"] for record in records if is_writing(record["pid"])]
    assert len(writing) == 1
    return int(writing[0])


def is_writing(pid: int) -> bool:
    for file in Path(f"/proc/{pid}/fd").iterdir():
        # Others are closed meanwhile.
        with suppress(FileNotFoundError):
            if "/large.partial-" in os.readlink(file):
                return True
    return False


def check_copy(place: Path) -> None:
    assert sorted(path.name for path in place.iterdir()) == ["copy", "dest", "t"]
    expected, found = snapshot(place / "t"), snapshot(place / "copy")
    # It was filled, for that takes time.
    assert found["large"].pop("content")[0] == expected["large"].pop("content")[0]
    assert found == expected


def test_what_cannot_be_reached(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    command = proactor_command("cp", "-a", "--json", "--ray=127.0.0.1:1", "t", "copy")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S)
    event = json.loads(done.stdout)
    assert (done.returncode, event["event"]) == (1, "error")
    assert event["message"].startswith("cannot reach a Ray cluster at 127.0.0.1:1")
    assert done.stderr == f"proactor cp: {event['message']}\n"
    assert os.listdir(tmp_path) == ["t"]
