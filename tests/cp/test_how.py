"""--verify, --bwlimit, --debug, --context, --keep-directory-symlink on the command line; more in Rust."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
from pathlib import Path
from tempfile import TemporaryFile

import arrangements
import pytest
from capabilities import needs
from cp_helpers import Ours, Same, denied, mounted, proactor_command

pytest_plugins = ["cp_fixtures"]

DEADLINE_S = 30
# Newer architectures share a number.
COPY_FILE_RANGE = {"x86_64": 326, "i686": 377, "ppc64le": 379, "s390x": 375}.get(os.uname().machine, 285)


def test_verify(cp: Ours) -> None:
    arrangements.tree(cp.directory)
    *_, report = map(json.loads, cp("-a", "--verify", "--json", "t", "new").stdout)
    assert (report["files"], report["verified"], report["failures"]) == (4, 4, 0)
    assert "4 verified" in cp("-a", "--verify", "--stats", "t", "more").stdout
    assert "verified" not in "".join(cp("-a", "--stats", "t", "third").stdout)


@pytest.mark.parametrize("rate", ["0", "100000000", "100M", "1.5GiB", "20kB"])
def test_rates(cp: Ours, rate: str) -> None:
    arrangements.files(cp.directory)
    outcome = cp(f"--bwlimit={rate}", "a", "new")
    assert (outcome.status, outcome.stderr) == (0, [])


@pytest.mark.parametrize("rate", ["", "fast", "-1", "1X", "1e6"])
def test_no_rates(cp: Ours, rate: str) -> None:
    arrangements.files(cp.directory)
    outcome = cp("--bwlimit", rate, "a", "new")
    assert outcome.status == 1
    assert any("expected a number of bytes, such as 500000, 1.5M or 20MB" in line for line in outcome.stderr)


def test_a_slow_copy_ends_at_once(tmp_path: Path) -> None:
    """With a byte a second, the next thing that it would do is in an hour."""
    (tmp_path / "source").write_bytes(os.urandom(100_000))
    command = proactor_command(
        "cp", "--bwlimit=1", "--reflink=never", "--progress=always", "source", "target"
    )
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        # The first step is through.
        while "0 B" in (line := process.stderr.readline()):
            pass
        assert line
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=DEADLINE_S) == 130
    assert os.listdir(tmp_path) == ["source"]


def offload(directory: Path, quick: tuple[str, ...] = ("ext2/ext3", "tmpfs")) -> str:
    """Whether the kernel copies files there by itself; short ones, unless only one file system is quick."""
    name = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True, check=True)
    with TemporaryFile(dir=directory) as source, TemporaryFile(dir=directory) as target:
        source.write(b"some")
        source.flush()
        try:
            os.copy_file_range(source.fileno(), target.fileno(), 4, 0)
        except OSError:
            return "no"
    return "yes" if name.stdout.strip() in quick else "no"


class TestDebug:
    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ("--reflink=never", "copy offload: OFFLOAD, reflink: no, sparse detection: no"),
            (
                "--reflink=never --sparse=always",
                "copy offload: no, reflink: no, sparse detection: SEEK_HOLE + zeros",
            ),
            ("--attributes-only", None),
        ],
    )
    def test_a_file(self, cp: Ours, options: str, said: str | None) -> None:
        arrangements.files(cp.directory)
        outcome = cp("--debug", *options.split(), "a", "new")
        said = said and said.replace("OFFLOAD", offload(cp.directory))
        assert outcome.stdout == sorted(["'a' -> 'new'", *([said] if said else [])])

    def test_what_the_file_system_can(self, cp: Ours) -> None:
        # Smaller ones are not cloned unless that is asked for.
        (cp.directory / "a").write_bytes(bytes(range(256)) * 64)
        (line,) = [line for line in cp("--debug", "a", "new").stdout if line.startswith("copy")]
        shared = cp("--reflink=always", "a", "shared").status == 0
        expected = (
            "copy offload: unknown, reflink: yes, sparse detection: unknown"
            if shared
            else f"copy offload: {offload(cp.directory)}, reflink: unsupported, sparse detection: no"
        )
        assert line == expected

    @needs("seccomp filter")
    @pytest.mark.parametrize("error", [errno.ENOSYS, errno.EPERM, errno.EXDEV, errno.EIO, errno.EINTR])
    def test_the_kernel_does_not_copy(self, tmp_path: Path, error: int) -> None:
        """copy_file_range fails: what it would have copied is read and written."""
        (tmp_path / "t").mkdir()
        for name in ("a", "b"):
            (tmp_path / name).write_bytes(os.urandom(10_000))
        arguments = ("cp", "--debug", "--reflink=never", "a", "b", "t")
        # What is named is not looked at first, as the first in a directory is.
        for said, command in (
            (offload(tmp_path), proactor_command(*arguments)),
            ("no", denied(COPY_FILE_RANGE, error, *arguments)),
        ):
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")
            assert done.stdout.count(f"copy offload: {said},") == 2
            for name in ("a", "b"):
                assert (tmp_path / "t" / name).read_bytes() == (tmp_path / name).read_bytes()

    @needs("tmpfs mount", "seccomp filter")
    @pytest.mark.parametrize("error", [None, errno.EXDEV, errno.EIO])
    def test_long_files(self, tmp_path: Path, error: int | None) -> None:
        """On tmpfs the kernel copies them as well, in steps."""
        arguments = ("cp", "-r", "--debug", "--verify", "s", "t")
        command = (
            proactor_command(*arguments) if error is None else denied(COPY_FILE_RANGE, error, *arguments)
        )
        with mounted("none", tmp_path, "-t", "tmpfs"):
            (tmp_path / "s").mkdir()
            contents = os.urandom(700_001)
            lengths = (1, 1 << 18, (1 << 18) + 1, 1 << 19, 700_001)
            for length in lengths:
                (tmp_path / f"s/{length}").write_bytes(contents[:length])
            done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")
            said = "no" if error else "yes"
            # The first of a share is read, to learn whether it was cached.
            assert done.stdout.count(f"copy offload: {said},") >= len(lengths) - 2
            for length in lengths:
                assert (tmp_path / f"t/{length}").read_bytes() == contents[:length]

    def test_holes(self, cp: Ours) -> None:
        with (cp.directory / "sparse").open("wb") as file:
            file.truncate(1 << 20)
            file.write(b"data")
        outcome = cp("--debug", "--reflink=never", "sparse", "new")
        said = offload(cp.directory, quick=("tmpfs",))
        assert f"copy offload: {said}, reflink: no, sparse detection: SEEK_HOLE" in outcome.stdout

    def test_what_has_no_contents(self, cp: Ours) -> None:
        arrangements.links(cp.directory)
        assert cp("-rP", "--debug", "l", "new").stdout == ["'l' -> 'new'"]

    @pytest.mark.parametrize("options", ["-n", "--update=none", "-u"])
    def test_what_was_skipped(self, cp: Ours, options: str) -> None:
        for name in ("a", "b"):
            (cp.directory / name).write_text(name)
            os.utime(cp.directory / name, (1e9, 1e9))
        assert cp(options, "--debug", "a", "b").stdout == ["skipped 'b'"]
        assert cp(options, "-v", "a", "b").stdout == []


@pytest.mark.parametrize(
    "words",
    ["-Z a new", "--context a new", "--context=any a new", "-Z --context=any --context a new", "-aZ d new"],
)
def test_context(same: Same, words: str) -> None:
    """On a kernel without SELinux; on one with it, both know what the policy says."""
    same(arrangements.files, *words.split())


class TestKeepDirectorySymlink:
    def arrange(self, root: Path) -> None:
        arrangements.overwrite(root)
        (root / "elsewhere").mkdir()
        (root / "tree" / "sub").mkdir()
        (root / "tree" / "sub" / "new").write_text("new\n")
        (root / "into" / "tree" / "sub").symlink_to("../../elsewhere")

    def test_refused(self, cp: Ours) -> None:
        self.arrange(cp.directory)
        outcome = cp("-r", "tree", "into")
        said = "cp: cannot overwrite non-directory 'into/tree/sub' with directory 'tree/sub'"
        assert (outcome.status, outcome.stderr) == (1, [said])

    def test_followed(self, cp: Ours) -> None:
        self.arrange(cp.directory)
        outcome = cp("-r", "--keep-directory-symlink", "tree", "into")
        assert (outcome.status, outcome.stderr) == (0, [])
        assert (cp.directory / "into" / "tree" / "sub").is_symlink()
        assert (cp.directory / "elsewhere" / "new").read_text() == "new\n"

    @pytest.mark.parametrize("to", ["nowhere", "../new"])
    def test_what_is_no_directory(self, cp: Ours, to: str) -> None:
        self.arrange(cp.directory)
        link = cp.directory / "into" / "tree" / "sub"
        link.unlink()
        link.symlink_to(to)
        outcome = cp("-r", "--keep-directory-symlink", "tree", "into")
        said = "cp: cannot overwrite non-directory 'into/tree/sub' with directory 'tree/sub'"
        assert (outcome.status, outcome.stderr) == (1, [said])
