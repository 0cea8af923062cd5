"""The demo runs, reads every byte right, says what it measured, and notices what is not as it was."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import proactor

DEMO = Path(__file__).parent.parent / "examples" / "demo.py"


def demo(directory: Path, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DEMO), "--smoke", "--dir", str(directory), *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_demo(tmp_path: Path) -> None:
    kept = tmp_path / "result.json"
    done = demo(tmp_path / "data", "--json", str(kept))
    assert done.returncode == 0, done.stderr
    readers = ["open().read()", "asyncio.to_thread", *proactor.engines()]
    rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("|")]
    assert rows[2:] == readers
    cells = json.loads(kept.read_text())["cells"]
    assert list(cells) == readers
    for (measured,) in cells.values():
        assert measured["files"] == 64
        assert measured["wall_s"] > 0
        assert measured["late_max_s"] >= measured["late_p99_s"] >= 0

    # The dataset keeps its bound, and is used again.
    (dataset,) = (tmp_path / "data").iterdir()
    files = [path for path in dataset.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 6_000_000 + 10_000  # with the manifest
    written = files[0].stat().st_mtime_ns
    again = demo(tmp_path / "data", "--engines", "threads")
    assert again.returncode == 0, again.stderr
    assert "making the dataset" not in again.stderr
    assert files[0].stat().st_mtime_ns == written

    # One byte of one file is not what was written.
    victim = next(path for path in files if path.suffix == ".bin")
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    failed = demo(tmp_path / "data", "--engines", "threads")
    assert failed.returncode != 0
    assert victim.name in failed.stderr
    assert "not what was written" in failed.stderr


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    assert demo(tmp_path, "--engines", "threads").returncode == 0
    victim = next(tmp_path.rglob("*.bin"))
    victim.rename(victim.with_suffix(".gone"))
    failed = demo(tmp_path, "--engines", "threads")
    assert failed.returncode != 0
    assert victim.name in failed.stderr
