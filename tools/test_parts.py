"""Run the Python tests in several processes at once, on one or more interpreters.

    python tools/test_parts.py --jobs 2 PYTHON... -- [PYTEST ARGUMENT...]

Each process runs pytest on a part of the test files, and its output follows when it has ended.
Tests that drop the kernel's caches run last and alone, since others may count on what is cached.
The exit status is 1 if a part failed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import subprocess
import sys
import threading
import time
from pathlib import Path

# Parts for each job. With more of them the jobs end closer together, but pytest starts more often.
PARTS_A_JOB = 4

# pytest's exit statuses.
PASSED, NOTHING_SELECTED = 0, 5

_output = threading.Lock()


def parts(files: list[str], count: int) -> list[list[str]]:
    """Put neighbours, which take about the same time, into different parts."""
    return [part for start in range(count) if (part := files[start::count])]


def ignored(arguments: list[str]) -> set[str]:
    """The paths that pytest is told to ignore."""
    options = (argument.partition("=") for argument in arguments)
    return {str(Path(path)) for name, _, path in options if name == "--ignore"}


def test_files(root: Path, without: set[str]) -> list[str]:
    found = sorted(str(path.relative_to(root)) for path in (root / "tests").rglob("test_*.py"))
    return [name for name in found if not {name, *map(str, Path(name).parents)} & without]


def run(command: list[str], title: str) -> int:
    started = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    with _output:
        sys.stdout.write(f"\n--- {title} ({time.monotonic() - started:.0f}s)\n")
        sys.stdout.flush()
        sys.stdout.buffer.write(done.stdout)
        sys.stdout.flush()
    return done.returncode


def run_all(pythons: list[str], files: list[str], arguments: list[str], jobs: int) -> bool:
    """Whether every part passed, and at least one had a test to run."""

    def one(python: str, part: list[str], caches: str, title: str) -> int:
        return run([python, "-m", "pytest", f"--caches={caches}", *arguments, *part], title)

    dealt = parts(files, jobs * PARTS_A_JOB)
    together = {
        f"{python}: part {number} of {len(dealt)}": (python, part)
        for python in pythons
        for number, part in enumerate(dealt, 1)
    }
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        ends = {title: pool.submit(one, *work, "keep", title) for title, work in together.items()}
        statuses = {title: end.result() for title, end in ends.items()}
    for python in pythons:
        title = f"{python}: tests that drop caches"
        statuses[title] = one(python, files, "drop", title)
    failed = [title for title, status in statuses.items() if status not in (PASSED, NOTHING_SELECTED)]
    for title in failed:
        print(f"failed: {title}")
    return not failed and PASSED in statuses.values()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="how many processes at once (default: 2)")
    parser.add_argument("pythons", nargs="+", metavar="PYTHON")
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    if options.jobs < 1:
        parser.error("--jobs: from 1")
    arguments = words[end + 1 :]
    files = test_files(Path(__file__).parent.parent, ignored(arguments))
    return 0 if run_all(options.pythons, files, arguments, options.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
