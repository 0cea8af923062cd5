"""Run GNU's own tests of cp on `proactor cp`, or with --control on the machine's own cp.

The tests come with Debian's source package of coreutils, which apt fetches by a configuration of its own:
the machine's stays as it is. Each test runs as root and as nobody, or only as whoever calls, with a wrapper
called `cp` first in PATH. One that needs what is not there says so by status 77. tests/cp/gnu_tests.txt
names the tests and those that are known to fail; docs/copy.md has the reasons. The exit status is 1 if others
fail, or if one of those passes.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ROOT / "tests" / "cp" / "gnu_tests.txt"
SKIPPED = 77
LIMIT_S = 60
PR_SET_CHILD_SUBREAPER = 36


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
        source = options.source.resolve() if options.source else fetch(place)
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


def fetch(place: Path) -> Path:
    """Fetch and unpack the source package; return its directory."""
    apt, packages = place / "apt", place / "packages"
    for directory in ("state/lists/partial", "cache/archives/partial"):
        (apt / directory).mkdir(parents=True)
    packages.mkdir()
    environment = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
    (apt / "sources.list").write_text("".join(source_lines()))
    (apt / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{apt}/sources.list"; Dir::Etc::sourceparts "-"; Dir::State "{apt}/state";\n'
        f'Dir::State::status "/var/lib/dpkg/status"; Dir::Cache "{apt}/cache"; APT::Sandbox::User "root";\n'
    )
    subprocess.run(["apt-get", "-qq", "update"], env=environment, check=True)
    get = ["apt-get", "-qq", "source", "--download-only", "coreutils"]
    subprocess.run(get, env=environment, cwd=packages, check=True)
    (archive,) = packages.glob("*.orig.tar.xz")
    subprocess.run(["tar", "-xf", archive.name], cwd=packages, check=True)
    (source,) = (path for path in packages.iterdir() if path.is_dir())
    return source


def source_lines() -> set[str]:
    """The machine's own Debian repositories, as those of source packages."""
    form = "$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)|$(SIGNED_BY)"
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", form, "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = set()
    for line in listed.stdout.splitlines():
        origin, uri, codename, component, key = line.split("|")
        if origin == "Debian" and component == "main":
            signed = f"[signed-by={key}] " if key.startswith("/") else ""
            lines.add(f"deb-src {signed}{uri} {codename} main\n")
    if not lines:
        sys.exit("gnu_tests.py: apt knows no repository of Debian; give --source the unpacked source package")
    return lines


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


def adopt_orphans() -> None:
    """Have processes whose parent has ended become children of this one, so that they can be found."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


def end_descendants(test_process: subprocess.Popen[bytes]) -> None:
    """Kill all that a test has started and left.

    Its process group does not have all of them: timeout(1) makes one of its own, and setsid(1) a session.
    """
    while found := descendants():
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        test_process.wait()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def descendants() -> set[int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        # Others end meanwhile.
        with suppress(OSError):
            # The name before it may have spaces and brackets.
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found: set[int] = set()
    newest = {os.getpid()}
    while newest:
        newest = {pid for pid, parent in parents.items() if parent in newest}
        found |= newest
    return found


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
