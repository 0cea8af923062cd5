"""Find the CPythons on this machine that proactor supports: pyenv's, the system's, and any named.

Prints `VERSION PATH` for one of each minor version, oldest first; what is passed over goes to stderr with its
reason. Written for Python 3.7, so that one that is too old can say so.
"""

from __future__ import annotations

import argparse
import glob
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

OLDEST, NEWEST = (3, 10), (3, 13)

# Run by each candidate, Python 2 included: the version on one line, why it will not do on the next.
# The extension's build needs no headers, for PyO3 has its own declarations; an environment needs pip.
PROBE = f"""
import platform, sys, sysconfig
version = sys.version_info[:2]
print("%d.%d" % version)
if not {OLDEST} <= version <= {NEWEST}:
    print("Python %d.%d is not supported" % version)
elif platform.python_implementation() != "CPython":
    print(platform.python_implementation() + " is not supported")
elif sysconfig.get_config_var("Py_GIL_DISABLED"):
    print("free-threaded builds are not supported")
else:
    try:
        import ensurepip, venv
    except ImportError as error:
        print("cannot make environments: %s" % error)
"""


def candidates(named: list[str]) -> Iterator[str]:
    """Interpreters to ask, the preferred one of a version first."""
    yield from named
    yield sys.executable
    pyenv = shutil.which("pyenv")
    if pyenv:
        root = subprocess.run([pyenv, "root"], stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
        yield from sorted(glob.glob(f"{root}/versions/*/bin/python"))
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        for directory in os.get_exec_path():
            # pyenv's shims stand for what its root lists.
            if not directory.endswith("/shims"):
                yield f"{directory}/python3.{minor}"


def probe(python: str) -> tuple[str, str | None]:
    """The interpreter's version, and why it will not do or None."""
    if shutil.which(python) is None:
        return "", "not found"
    try:
        done = subprocess.run([python, "-c", PROBE], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    if done.returncode != 0:
        return "", (done.stderr.strip() or f"exits with {done.returncode}").splitlines()[-1]
    version, reason = done.stdout.split("\n")[:2]
    return version, reason or None


def find(named: list[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Usable interpreters by version, and why others were passed over by path."""
    found: dict[str, str] = {}
    passed_over: dict[str, str] = {}
    for python in dict.fromkeys(candidates(named)):
        if python not in named and not os.path.exists(python):
            continue
        version, reason = probe(python)
        if reason is None:
            found.setdefault(version, python)
        else:
            passed_over[python] = reason
    return found, passed_over


def main() -> int | str:
    """The exit status, or the error to print."""
    parser = argparse.ArgumentParser(description="Find the CPythons here that proactor supports.")
    parser.add_argument("pythons", nargs="*", help="interpreters to use beside those found")
    parser.add_argument("--ends", action="store_true", help="only the oldest and the newest")
    parser.add_argument("--check", action="store_true", help="only check the Python that runs this")
    args = parser.parse_args()
    if args.check:
        reason = probe(sys.executable)[1]
        return f"{sys.executable}: {reason}; name another with PYTHON=" if reason else 0
    found, passed_over = find(args.pythons)
    for python, reason in passed_over.items():
        print(f"passed over {python}: {reason}", file=sys.stderr)
    if not passed_over.keys().isdisjoint(args.pythons):
        return "an interpreter named cannot be used"
    versions = sorted(found, key=lambda version: [int(part) for part in version.split(".")])
    if not versions:
        return "no supported CPython found"
    for version in dict.fromkeys([versions[0], versions[-1]] if args.ends else versions):
        print(version, found[version])
    return 0


if __name__ == "__main__":
    sys.exit(main())
