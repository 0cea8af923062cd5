"""Run GNU's own tests of cp on `proactor cp`, or with --control on the machine's own cp.

The tests come with Debian's source package of coreutils, which apt fetches by a configuration of its own:
the machine's stays as it is. Each test runs as root and as nobody, or only as whoever calls, with a wrapper
called `cp` first in PATH. One that needs what is not there says so by status 77. tests/cp/gnu_tests.txt
names the tests and those that are known to fail; docs/copy.md has the reasons. The exit status is 1 if others
fail, or if one of those passes.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import debian_source
from descendants import adopt_orphans, end_descendants

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "tests" / "cp" / "gnu_tests.txt"
SKIPPED = 77
LIMIT_S = 60


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "--binary", type=Path, default=ROOT / "target/native/proactor", help="the static binary"
    )
    parser.add_argument("--control", action="store_true", help="the machine's own cp instead")
    parser.add_argument("--source", type=Path, help="the unpacked source package, instead of fetching it")
    parser.add_argument("--limit", type=float, default=LIMIT_S, metavar="SECONDS", help="for each test")
    parser.add_argument("--verbose", action="store_true", help="show what failing tests say")
    parser.add_argument("names", nargs="*", help="only these tests")
    options = parser.parse_args()
    known = dict(read_names())
    adopt_orphans()
    # The directory and the processes are removed then as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    # Whoever nobody is must be able to read it.
    with scratch() as place:
        source = (
            options.source.resolve() if options.source else unpack(debian_source.fetch("coreutils", place))
        )
        tree = place / "tree"
        shutil.copytree(source, tree, symlinks=True)
        subprocess.run(["chmod", "-R", "go=rX", tree], check=True)
        make_wrapper(tree, None if options.control else options.binary)
        users = ["root", "nobody"] if os.geteuid() == 0 else [""]
        names = options.names or list(known)
        found = {name: run(tree, name, users, options) for name in names}
    return report(found, known, control=options.control, users=users)


def read_names() -> Iterator[tuple[str, bool]]:
    """Each test's name, and whether it is known to fail."""
    for line in NAMES.read_text().splitlines():
        if line and not line.startswith("#"):
            name, _, fails = line.partition(" ")
            yield name, fails == "fails"


@contextmanager
def scratch() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="gnu-tests-"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        # Tests of permissions leave directories that keep out whoever is not root.
        subprocess.run(["chmod", "-R", "u+rwX", place], check=False)
        shutil.rmtree(place)


def unpack(packages: Path) -> Path:
    """Unpack the package without Debian's patches; return its directory."""
    (archive,) = packages.glob("*.orig.tar.xz")
    subprocess.run(["tar", "-xf", archive.name], cwd=packages, check=True)
    (source,) = (path for path in packages.iterdir() if path.is_dir())
    return source


def make_wrapper(tree: Path, binary: Path | None) -> None:
    """Make `cp` in the directory that the tests put first in PATH."""
    wrapper = tree / "src" / "cp"
    if binary is None:
        wrapper.symlink_to(shutil.which("cp") or "/bin/cp")
        return
    shutil.copy(binary, tree / "proactor")
    # Messages begin with the program's name, which the tests compare. stdin and stdout are those of the test.
    wrapper.write_text(
        "#!/bin/bash\n"
        f"{{ {tree}/proactor cp \"$@\" 2>&1 >&3 3>&- | sed -u 's/^proactor cp: /cp: /' >&2; }} 3>&1\n"
        "exit ${PIPESTATUS[0]}\n"
    )
    wrapper.chmod(0o755)


def run(tree: Path, name: str, users: list[str], options: argparse.Namespace) -> str:
    """Run a test as each user: `failed` if it fails once, `passed` if it passes once, else `skipped`."""
    outcomes = set()
    for user in users:
        status, said = run_as(tree, name, user, options.limit)
        outcomes.add({0: "passed", SKIPPED: "skipped"}.get(status, "failed"))
        if options.verbose and status not in (0, SKIPPED):
            print(f"--- {name} as {user or 'this user'}: {status}\n{said}")
    return next(outcome for outcome in ("failed", "passed", "skipped") if outcome in outcomes)


def run_as(tree: Path, name: str, user: str, limit_s: float) -> tuple[int, str]:
    (test,) = (
        path for path in (tree / "tests" / "cp").glob(f"{name}.*") if path.suffix in (".sh", ".pl", ".xpl")
    )
    place = Path(tempfile.mkdtemp(dir=tree.parent))
    place.chmod(0o777)
    # Its directory is made where it starts.
    for entry in tree.iterdir():
        (place / entry.name).symlink_to(entry)
    environment = {
        "PATH": f"{tree}/src:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        "HOME": str(place),
        "TMPDIR": str(place),
        "srcdir": str(tree),
        "top_srcdir": str(tree),
        "abs_srcdir": str(tree),
        "abs_top_srcdir": str(tree),
        "abs_top_builddir": str(place),
        "built_programs": "cp",
        "fail": "0",
        "SHELL": "/bin/sh",
        "PERL": "perl",
        "AWK": "awk",
        "EGREP": "grep -E",
        "CC": "cc",
        "EXEEXT": "",
        "host_os": "linux-gnu",
        "VERSION": "9.1",
        "PACKAGE_VERSION": "9.1",
        "NON_ROOT_USERNAME": "nobody",
    }
    shell = ["perl", f"-I{tree}/tests", "-MCuSkip", "-MCoreutils"] if test.suffix == ".pl" else ["/bin/bash"]
    drop = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if user == "nobody" else []
    command = [*drop, "bash", "-c", 'exec "$@" 9>&2', "bash", *shell, str(test)]
    # No pipe: what a test leaves holds its end, and would be waited for.
    with tempfile.TemporaryFile() as said:
        test_process = subprocess.Popen(
            command,
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = test_process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return 124, f"no end within {limit_s} s"
        finally:
            end_descendants(test_process)
        said.seek(0)
        return status, said.read().decode(errors="replace")


def report(found: dict[str, str], known: dict[str, bool], *, control: bool, users: list[str]) -> int:
    counts = Counter(found.values())
    print(f"as {' and '.join(user or 'this user' for user in users)}:", end=" ")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    if control:
        print("failed:", *sorted(name for name, outcome in found.items() if outcome == "failed"))
        return 0
    unexpected = [name for name, outcome in found.items() if outcome == "failed" and not known.get(name)]
    passing = [name for name, outcome in found.items() if outcome == "passed" and known.get(name)]
    expected = [name for name, outcome in found.items() if outcome == "failed" and known.get(name)]
    for what, names in (
        ("known to fail", expected),
        ("failed", unexpected),
        (f"passes now: take it off the list in {NAMES.name}", passing),
    ):
        if names:
            print(f"{what}: {' '.join(names)}")
    return 1 if unexpected or passing else 0


if __name__ == "__main__":
    sys.exit(main())
