"""Run the test suites of the packages that `proactor.compat` replaces, on `proactor.compat`.

Downloads each package's source distribution in the version that we follow, redirects its imports
(`tools/dropin/dropin_redirect.py`), runs its own tests, and compares the outcome of each with what is
expected. Fails when a test fails that is not listed in `SUITES` with its reason, when one that is listed
passes, and when the number of tests is another.

    make dropin-suites
    .venv/bin/python tools/dropin_suites.py caio aiofiles      # some of them
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
WORK = ROOT / ".dropin"
ENVIRONMENT = WORK / "venv"
REDIRECT = ROOT / "tools" / "dropin" / "dropin_redirect.py"

# The version of each package that the compat module follows; pinned, as the counts below are of these.
VERSIONS = {"aiofile": "3.12.3", "aiofiles": "25.1.0", "caio": "0.12.10", "linux_aio": "0.4.1"}

_NETWORK = "connects to a host on the internet"
# Root may do what the mode of a file forbids others.
_AS_ROOT = {"test_os::test_access": "fails with aiofiles, too"} if os.geteuid() == 0 else {}


@dataclass(frozen=True)
class Suite:
    package: str
    tests: str
    count: int
    # Packages that are imported as they are, from the source distribution.
    keep: str = ""
    # The pytest plugin that the suite is not written for; both cannot be on at once.
    without: str = "asyncio"
    # The files to run, all of them if none is named.
    only: tuple[str, ...] = ()
    # The end of a test's identifier: why it does not pass, or is not counted.
    failing: dict[str, str] = field(default_factory=dict)


# What a suite itself leaves out here.
SKIPS = (
    "free-threaded",
    "3.12+ ",
    "Windows-only",
    "linux_aio-only",
    "not importable by name in a subprocess",
)

SUITES = {
    # The tests of what a user of the package calls; the other files are of its C and its threads.
    "caio": Suite("caio", "tests", 120, only=("test_aio_context.py", "test_asyncio_adapter.py")),
    "aiofile on our caio": Suite("aiofile", "tests", 479, keep="aiofile"),
    "aiofile": Suite(
        "aiofile",
        "tests",
        479,
        failing={"test_default_context_closed_with_event_loop": "replaces parts of aiofile's own insides"},
    ),
    "aiofiles": Suite("aiofiles", "tests", 211, without="aiomisc", failing=_AS_ROOT),
    "linux_aio": Suite(
        "linux_aio",
        "test",
        45,
        failing={
            f"{place}::{test}": _NETWORK
            for place in ("TestAIOBlock", "TestNonRW")
            for test in ("test_poll", "test_poll_modify_masks", "test_poll_wo_initial_masks")
        },
    ),
}


def sources(package: str) -> Path:
    """The unpacked source distribution."""
    name = f"{package}-{VERSIONS[package]}"
    unpacked = WORK / name
    if not unpacked.exists():
        _pip(
            "download",
            "--no-deps",
            f"--no-binary={package}",
            f"--dest={WORK}",
            f"{package}=={VERSIONS[package]}",
        )
        (archive,) = WORK.glob(f"{name}.tar.gz")
        partial = WORK / "unpacking"
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(partial, filter="data")
        (partial / name).rename(unpacked)
    return unpacked


def environment() -> Path:
    """The interpreter of an environment with the redirection, the suites' plugins, and this checkout's
    package.
    """
    needed = (ROOT / "requirements" / "dropin.txt").read_text()
    mark = ENVIRONMENT / "requirements.txt"
    python = ENVIRONMENT / "bin" / "python"
    if not mark.exists() or mark.read_text() != needed:
        venv.create(ENVIRONMENT, clear=True, symlinks=True)
        _pip(
            f"--python={python}",
            "install",
            "--no-deps",
            f"--requirement={ROOT / 'requirements' / 'dropin.txt'}",
        )
        mark.write_text(needed)
    (site,) = ENVIRONMENT.glob("lib/python*/site-packages")
    (site / "dropin.pth").write_text(f"{ROOT / 'python'}\n{REDIRECT.parent}\nimport {REDIRECT.stem}\n")
    return python


def run(name: str, python: Path) -> Iterator[str]:
    """Run one suite; yield what is not as expected."""
    suite = SUITES[name]
    outcome = WORK / "outcome.xml"
    outcome.unlink(missing_ok=True)
    folder = sources(suite.package)
    # The tests alone, so that no package of the source distribution is found beside them.
    place = WORK / f"{suite.package}-tests"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder / suite.tests, place / suite.tests)
    for settings in ("pyproject.toml", "tests/__init__.py"):
        if (folder / settings).exists():
            shutil.copy(folder / settings, place / settings)
    if (
        not (folder / "pyproject.toml").exists()
        or "[tool.pytest" not in (folder / "pyproject.toml").read_text()
    ):
        # Or pytest would find the settings of this repository above.
        (place / "pytest.ini").write_text("[pytest]\n")
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST", "PYTHON"))}
    path = {"PYTHONPATH": str(folder)} if suite.keep else {}
    metadata = folder / f"{folder.name}.dist-info"
    if suite.keep and not metadata.exists():
        metadata.mkdir()
        shutil.copy(folder / "PKG-INFO", metadata / "METADATA")
    done = subprocess.run(
        [
            str(python),
            "-m",
            "pytest",
            "-q",
            f"-pno:{suite.without}",
            "--timeout=60",
            f"--junitxml={outcome}",
            *([f"{suite.tests}/{file}" for file in suite.only] or [suite.tests]),
        ],
        cwd=place,
        env=inherited | path | {"DROPIN_KEEP": suite.keep},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if not outcome.exists():
        yield f"pytest ended with {done.returncode}\n{done.stdout}"
        return
    yield from compare(suite, ElementTree.parse(outcome))


def compare(suite: Suite, outcome: Any) -> Iterator[str]:
    """Yield each difference between what was expected of the suite and what a JUnit file says."""
    cases = list(outcome.iter("testcase"))
    failed, skipped = {}, 0
    for case in cases:
        for kind in ("failure", "error", "skipped"):
            found = case.find(kind)
            if (
                found is not None
                and kind == "skipped"
                and any(known in found.get("message") for known in SKIPS)
            ):
                skipped += 1
            elif found is not None:
                failed[f"{case.get('classname')}::{case.get('name')}"] = f"{kind}: {found.get('message')}"
    passed = len(cases) - len(failed) - skipped
    print(f"  {passed} of {passed + len(failed)} passed")
    expected = set(suite.failing)
    for test, message in failed.items():
        known = {end for end in expected if test.endswith(end)}
        expected -= known
        if not known:
            yield f"{test}: {message}"
    yield from (f"{test} passes, and is listed as one that does not" for test in sorted(expected))
    if passed + len(failed) != suite.count:
        yield f"{passed + len(failed)} tests, not {suite.count}"


def _pip(*arguments: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("suite", nargs="*", choices=[[], *SUITES], help="all unless named")
    arguments = parser.parse_args()
    WORK.mkdir(exist_ok=True)
    python = environment()
    bad = 0
    for name in arguments.suite or SUITES:
        print(name, flush=True)
        started = time.monotonic()
        for difference in run(name, python):
            bad += 1
            print(f"  {difference}")
        print(f"  {time.monotonic() - started:.0f} s", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
