"""Run Redis's own tests on its server under `proactor run`, and without it.

The tests come with Debian's source package of the installed version of redis-server, which apt fetches by a
configuration of our own: the machine's stays as it is. A program takes the place of src/redis-server and
starts the installed server under `proactor run`, or plain. Each unit of the suite runs by itself, `--jobs` of
them at once. The units in which a test fails are run again without us, as often as with us. The exit status
is 1 if a test has failed with us that has never failed without, or if no connection was on a ring. A smoke
run has each unit once, and three times those in which a test fails. One failure in three is only shown
there, as some of Redis's tests depend on the time that a machine takes. The exit status is 3 if the source
package cannot be fetched.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import itertools
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import debian_source
import proactor
from descendants import adopt_orphans, descendants, end_descendants

SERVER = "/usr/bin/redis-server"
TOOLS = ("redis-benchmark", "redis-check-aof", "redis-check-rdb", "redis-cli")
# What CI runs, and how often a unit in which a test fails.
SMOKE_RUNS = 3
SMOKE = ("unit/type/string", "unit/type/list", "unit/multi", "unit/pubsub", "integration/aof")
# The suite gives up a test that makes no progress for so long; a unit takes minutes at most.
IDLE_S, LIMIT_S = 600, 1800
# Below the ports that the kernel gives out; servers of a cluster use those 10,000 above theirs as well.
PORTS, PORTS_A_JOB = range(10_000, 22_000), 600
UNIT = "(the unit)"
NO_SOURCE = 3

RESULT = re.compile(r"\[(ok|err|exception|TIMEOUT)\]: ?(.*)")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")

# A program and not a script, as tests look into it with ldd.
WRAPPER = r"""
#include <stdio.h>
#include <unistd.h>
int main(int count, char **given) {
    char *before[] = {COMMAND};
    int length = sizeof before / sizeof *before;
    char *all[length + count];
    for (int i = 0; i < length; i++) all[i] = before[i];
    for (int i = 1; i <= count; i++) all[length + i - 1] = given[i];
    execv(all[0], all);
    perror(all[0]);
    return 127;
}
"""


@dataclass
class Results:
    """How often each test, by unit and name, has passed and failed, and what it said when it failed."""

    passed: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    said: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, unit: str, outcomes: dict[str, str | None]) -> None:
        for name, failure in outcomes.items():
            (self.passed if failure is None else self.failed)[unit, name] += 1
            if failure is not None:
                self.said[unit, name] = failure

    def summary(self) -> str:
        only_passed = sum(1 for test in self.passed if test not in self.failed)
        return f"{only_passed} tests passed each time, {len(self.failed)} failed"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--source", type=Path, help="the unpacked source package, instead of fetching it")
    parser.add_argument("--runs", type=int, default=3, help="with us (default: 3)")
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(os.cpu_count() or 1, 8),
        help="units at once (default: the CPUs, at most 8)",
    )
    parser.add_argument("--smoke", action="store_true", help="the units that CI runs, once")
    parser.add_argument("--verbose", action="store_true", help="show what failing tests say")
    parser.add_argument("units", nargs="*", help="only these, such as unit/multi")
    options = parser.parse_args()
    if options.runs < 1 or not 1 <= options.jobs <= len(PORTS[::PORTS_A_JOB]):
        parser.error(f"--runs: from 1; --jobs: from 1 to {len(PORTS[::PORTS_A_JOB])}")
    adopt_orphans()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="redis-suite-") as name:
        place = Path(name)
        source = options.source.resolve() if options.source else fetch(place)
        units = options.units or (list(SMOKE) if options.smoke else all_units(source))
        runs = 1 if options.smoke else options.runs
        ours, stats = Results(), place / "stats"
        library = place / "libproactor_preload.so"
        # A build meanwhile would change it under running servers.
        shutil.copy(Path(proactor.__file__).parent / library.name, library)
        options_of_run = ["--strict", f"--stats={stats}", f"--library={library}"]
        ring = [sys.executable, "-m", "proactor", "run", *options_of_run, "--", SERVER]
        try:
            run_all(source, place / "ring", ring, units, runs, options.jobs, ours)
            plain = Results()
            again = sorted({unit for unit, _ in ours.failed})
            if options.smoke:
                run_all(source, place / "again", ring, again, SMOKE_RUNS - runs, options.jobs, ours)
                runs = SMOKE_RUNS
            run_all(source, place / "plain", [SERVER], again, runs, options.jobs, plain)
        finally:
            end_descendants(subprocess.Popen(["true"]))
        lines = stats.read_text().splitlines() if stats.exists() else []
        sockets = sum(json.loads(line)["sockets"] for line in lines)
    allowed = 1 if options.smoke else 0
    return report(ours, plain, sockets, allowed=allowed, verbose=options.verbose)


def fetch(place: Path) -> Path:
    """Fetch and unpack the source package, with Debian's patches; return its directory."""
    form = "${source:Package}=${source:Version}"
    asked = ["dpkg-query", "--show", f"--showformat={form}", "redis-server"]
    version = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    try:
        packages = debian_source.fetch(version, place)
    except subprocess.CalledProcessError as error:
        print(f"redis_suite.py: apt cannot fetch the source package {version}: {error}", file=sys.stderr)
        sys.exit(NO_SOURCE)
    (description,) = packages.glob("*.dsc")
    unpack = ["dpkg-source", "--no-check", "-x", description.name, "unpacked"]
    subprocess.run(unpack, cwd=packages, check=True, stdout=subprocess.DEVNULL)
    return packages / "unpacked"


def all_units(source: Path) -> list[str]:
    listed = subprocess.run(
        ["./runtest", "--list-tests"], cwd=source, capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


def run_all(
    source: Path, place: Path, command: list[str], units: list[str], runs: int, jobs: int, results: Results
) -> None:
    """Run each unit so often, in trees of their own."""
    if not units:
        return
    trees: queue.SimpleQueue[tuple[Path, int]] = queue.SimpleQueue()
    # At random, so that two runs of this tool rarely meet.
    ports = random.sample(PORTS[::PORTS_A_JOB], jobs)
    for job, port in enumerate(ports):
        trees.put((make_tree(source, place / str(job), command), port))

    def one(unit: str) -> None:
        tree, port = trees.get()
        try:
            outcomes = run_unit(tree, unit, port)
        finally:
            trees.put((tree, port))
        results.add(unit, outcomes)
        failures = [name for name, failure in outcomes.items() if failure is not None]
        told = f"{len(outcomes)} tests" + "".join(f"\n    failed: {name}" for name in failures)
        print(f"{place.name}: {unit}: {told}", flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(one, unit) for unit in units * runs]:
            done.result()


def make_tree(source: Path, tree: Path, command: list[str]) -> Path:
    """Make a tree with the tests, the installed tools, and a server that is `command`."""
    shutil.copytree(source / "tests", tree / "tests")
    shutil.copytree(source / "utils", tree / "utils")
    shutil.copy(source / "runtest", tree)
    shutil.copy(source / "redis.conf", tree)
    # Some tests look into the sources of the server.
    shutil.copytree(source / "src", tree / "src")
    for tool in TOOLS:
        (tree / "src" / tool).symlink_to(f"/usr/bin/{tool}")
    words = ", ".join(json.dumps(word) for word in command)
    compiler = ["cc", "-x", "c", "-", f"-DCOMMAND={words}", "-o", str(tree / "src" / "redis-server")]
    subprocess.run(compiler, input=WRAPPER, text=True, check=True)
    return tree


def run_unit(tree: Path, unit: str, port: int) -> dict[str, str | None]:
    """Run a unit; return what each of its tests said when it failed, or None."""
    command = ["./runtest", "--single", unit, "--durable", "--clients", "1", "--timeout", str(IDLE_S)]
    ports = ["--baseport", str(port + 32), "--portcount", str(PORTS_A_JOB - 32)]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            [*command, *ports],
            cwd=tree,
            env={**os.environ, "TERM": "dumb", "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            for pid in (*descendants(process.pid), process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            status = process.wait()
        output.seek(0)
        text = COLOUR.sub("", output.read().decode(errors="replace"))
    outcomes = dict(outcomes_of(text))
    if status != 0 and not any(failure is not None for failure in outcomes.values()):
        outcomes[UNIT] = f"status {status}\n{text[-2000:]}"
    return outcomes


def outcomes_of(text: str) -> Iterator[tuple[str, str | None]]:
    lines = text.partition("The End")[0].splitlines()
    at = [number for number, line in enumerate(lines) if line.startswith("[")]
    for start, end in itertools.pairwise([*at, len(lines)]):
        found = RESULT.match(lines[start])
        if found is None:
            continue
        what, rest = found.groups()
        if what == "ok":
            yield re.sub(r" \(\d+ ms\)$", "", rest), None
        else:
            name = rest.partition(" in tests/")[0] if what == "err" else UNIT
            yield name, "\n".join(lines[start:end])


def report(ours: Results, plain: Results, sockets: int, *, allowed: int, verbose: bool) -> int:
    print(f"on rings: {ours.summary()}; {sockets} connections were on a ring")
    faults = []
    for test, times in sorted(ours.failed.items()):
        without = plain.failed[test]
        print(f"{' '.join(test)}: failed {times} times with us, {without} times without")
        if verbose:
            print(ours.said[test])
        if without == 0 and times > allowed:
            faults.append(test)
    print(f"fail with us alone: {len(faults)}")
    return 1 if faults or sockets == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
