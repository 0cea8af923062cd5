"""Run uvloop's and asyncio's own tests under `proactor run`, and without it.

uvloop's come with the source distribution of the installed version, which pip fetches, asyncio's with the
interpreter where it has its package `test`. A unit is one file of tests. Each runs plain and under `proactor
run`, and each test must end in the same way: passed, skipped or failed. The units in which a test ends
differently are run again, three times each way, as some tests depend on the time that a machine takes. The
two suites run at once. The exit status is 1 if a test has ended with us as it never has without, or if no
connection was on a ring. A smoke run leaves out TLS and the slow units, and a test may end differently once
of four times. The exit status is 3 if the source distribution cannot be fetched.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

import proactor

# The files of tests that are about connections, by whose they are.
UNITS = {
    "uvloop": ("test_tcp", "test_unix"),
    "asyncio": (
        "test_sock_lowlevel",
        "test_streams",
        "test_server",
        "test_buffered_proto",
        "test_selector_events",
        "test_unix_events",
        "test_sendfile",
        "test_ssl",
        "test_sslproto",
        "test_subprocess",
        "test_events",
    ),
}
SMOKE = {"uvloop": UNITS["uvloop"], "asyncio": UNITS["asyncio"][:4]}
SMOKE_ARGUMENTS = ("-k", "not SSL")
AGAIN = 3
NO_SOURCE = 3
# Of one test, and of a unit.
TEST_LIMIT_S, UNIT_LIMIT_S = 60, 600

# From what counts most: a test may be told of several times, when it has subtests.
OUTCOMES = ("error", "failure", "skipped", "passed")
UNIT = "(the unit)"


@dataclass
class Results:
    """How often each test, by unit and name, has ended in which way, and what it said when it failed."""

    ended: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)
    said: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, unit: str, outcomes: dict[str, tuple[str, str]]) -> None:
        for name, (outcome, said) in outcomes.items():
            self.ended.setdefault((unit, name), Counter())[outcome] += 1
            if outcome in OUTCOMES[:2]:
                self.said[unit, name] = said

    def of(self, test: tuple[str, str]) -> Counter[str]:
        return self.ended.get(test, Counter())


@dataclass(frozen=True)
class Place:
    """A directory with what is run, and the two ways to run it."""

    directory: Path
    ways: dict[str, list[str]]

    @property
    def stats(self) -> Path:
        return self.directory / "stats"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--source", type=Path, help="uvloop's unpacked source distribution")
    parser.add_argument("--smoke", action="store_true", help="what CI runs, in half a minute")
    parser.add_argument("--verbose", action="store_true", help="show what failing tests say")
    parser.add_argument(
        "--run-options", default="", metavar="OPTIONS", help="of `proactor run`: --run-options=--pool=1"
    )
    parser.add_argument("suites", nargs="*", choices=[[], *UNITS], help="both unless named")
    options = parser.parse_args()
    suites = options.suites or list(UNITS)
    if "asyncio" in suites and not has_tests_of_asyncio():
        print("asyncio: this interpreter comes without its package `test`")
        suites.remove("asyncio")
    with tempfile.TemporaryDirectory(prefix="uvloop-suite-") as name:
        place = prepare(Path(name), options.run_options.split())
        if "uvloop" in suites:
            source = options.source or fetch(place.directory)
            shutil.copytree(source / "tests", place.directory / "tests")
        results = run_suites(place, suites, smoke=options.smoke)
        lines = place.stats.read_text().splitlines() if place.stats.exists() else []
    sockets = sum(json.loads(line)["sockets"] for line in lines)
    return report(results, sockets, allowed=1 if options.smoke else 0, verbose=options.verbose)


def has_tests_of_asyncio() -> bool:
    try:
        return importlib.util.find_spec("test.test_asyncio") is not None
    except ModuleNotFoundError:
        return False


def prepare(directory: Path, options: list[str]) -> Place:
    # Or pytest would look for settings above.
    (directory / "pytest.ini").write_text("[pytest]\n")
    library = directory / "libproactor_preload.so"
    # A build meanwhile would change it under the tests.
    shutil.copy(Path(proactor.__file__).parent / library.name, library)
    run = [sys.executable, "-m", "proactor", "run", "--strict", f"--library={library}", *options]
    place = Place(directory, {})
    place.ways.update(plain=[], ours=[*run, f"--stats={place.stats}", "--"])
    return place


def fetch(directory: Path) -> Path:
    """Fetch and unpack the source distribution; return its directory."""
    name = f"uvloop-{version('uvloop')}"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps"]
    command = [*pip, "--no-binary=uvloop", f"--dest={directory}", name.replace("-", "==")]
    try:
        subprocess.run(command, check=True)
    except subprocess.CalledProcessError as error:
        print(f"uvloop_suite.py: pip cannot fetch the source of {name}: {error}", file=sys.stderr)
        sys.exit(NO_SOURCE)
    with tarfile.open(directory / f"{name}.tar.gz") as archive:
        archive.extractall(directory, filter="data")
    return directory / name


def run_suites(place: Place, suites: list[str], *, smoke: bool) -> dict[str, Results]:
    """Run the units of each suite; return the results of each way."""
    results = {way: Results() for way in place.ways}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(run_suite, place, suite, results, smoke=smoke) for suite in suites]:
            done.result()
    return results


def run_suite(place: Place, suite: str, results: dict[str, Results], *, smoke: bool) -> None:
    for file in (SMOKE if smoke else UNITS)[suite]:
        unit = f"{suite} {file}"
        arguments = [f"tests/{file}.py"] if suite == "uvloop" else ["--pyargs", f"test.test_asyncio.{file}"]
        arguments += SMOKE_ARGUMENTS if smoke else ()
        run_unit(place, unit, arguments, results)
        if any(test[0] == unit for test in different(results)):
            for _ in range(AGAIN):
                run_unit(place, unit, arguments, results)


def run_unit(place: Place, unit: str, arguments: list[str], results: dict[str, Results]) -> None:
    # Not at once: uvloop's tests all look for free ports from the same one on.
    for way in place.ways:
        outcomes = run_one(place, unit, way, arguments)
        results[way].add(unit, outcomes)
        counted = Counter(outcome for outcome, _ in outcomes.values())
        told = ", ".join(f"{count} {outcome}" for outcome, count in counted.items())
        print(f"{unit}, {way}: {told}", flush=True)


def run_one(place: Place, unit: str, way: str, arguments: list[str]) -> dict[str, tuple[str, str]]:
    """Run a unit in one way; return how each of its tests ended, and what it said."""
    outcome = place.directory / f"{unit}.xml"
    outcome.unlink(missing_ok=True)
    options = ["-q", "-c", "pytest.ini", "-p", "no:cacheprovider", f"--timeout={TEST_LIMIT_S}"]
    pytest = [sys.executable, "-m", "pytest", *options, f"--junitxml={outcome}"]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON"))}
    process = subprocess.Popen(
        [*place.ways[way], *pytest, *arguments],
        cwd=place.directory,
        env=inherited,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        output, _ = process.communicate(timeout=UNIT_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
    if not outcome.exists():
        return {UNIT: ("error", f"pytest ended with {process.returncode}\n{output[-2000:]}")}
    return outcomes_of(ElementTree.parse(outcome).iter("testcase"))


def outcomes_of(cases: Iterable[ElementTree.Element]) -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for case in cases:
        name = f"{case.get('classname', '').rpartition('.')[2]}::{case.get('name')}"
        told = {element.tag: element.text or "" for element in case}
        outcome = next((one for one in OUTCOMES if one in told), "passed")
        before, _ = found.get(name, ("passed", ""))
        if name not in found or OUTCOMES.index(outcome) < OUTCOMES.index(before):
            found[name] = outcome, told.get(outcome, "")
    return found


def different(results: dict[str, Results], allowed: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the tests that have ended with us, more than `allowed` times, as they never have without."""
    ours, plain = results["ours"], results["plain"]
    for test in sorted({*ours.ended, *plain.ended}):
        here, there = ours.of(test), plain.of(test)
        alone = sum(times for outcome, times in here.items() if outcome not in there)
        if not here or alone > allowed:
            yield test


def report(results: dict[str, Results], sockets: int, *, allowed: int, verbose: bool) -> int:
    ours, plain = results["ours"], results["plain"]
    counted = Counter(outcome for outcomes in ours.ended.values() for outcome in outcomes)
    print(f"with us: {dict(counted)}; {sockets} connections were on a ring")
    for test in different(results):
        print(f"{' '.join(test)}: {dict(ours.of(test))} with us, {dict(plain.of(test))} without")
        if verbose:
            print(ours.said.get(test, ""))
    faults = list(different(results, allowed))
    print(f"end differently with us: {len(faults)}")
    return 1 if faults or sockets == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
