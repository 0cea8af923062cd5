"""`proactor run` as a command: it becomes the program, or says in a line why it cannot do more than that."""

from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import needs
from guides import check_console_blocks
from run_helpers import DENIED, LIBRARY, RUN


def run(
    *args: str, env: dict[str, str] | None = None, before: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*(before or []), *RUN, *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **(env or {})},
    )


@needs("io_uring")
def test_status_and_output_are_the_programs() -> None:
    done = run("--strict", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")


@needs("io_uring")
def test_guide(tmp_path: Path) -> None:
    check_console_blocks("run.md", tmp_path)


@needs("io_uring")
def test_signals_are_the_programs() -> None:
    assert run("sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM
    # The interpreter of the command ignores these.
    ignored = run("sh", "-c", "grep SigIgn /proc/self/status").stdout.split()[1]
    assert int(ignored, 16) & (1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1) == 0


@needs("io_uring")
def test_another_preload_is_kept() -> None:
    shown = run("sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": "libm.so.6"}).stdout
    assert shown == f"{LIBRARY}:libm.so.6\n"


@needs("io_uring")
def test_children_can_be_left_alone() -> None:
    seen = "grep -c libproactor_preload /proc/self/maps; true"
    assert run("sh", "-c", seen).stdout != "0\n"
    script = 'echo "$LD_PRELOAD|$PROACTOR_RUN"; grep -c libproactor_preload /proc/self/maps; true'
    assert run("--no-children", "sh", "-c", script).stdout == "|\n0\n"
    kept = run("--no-children", "sh", "-c", "echo $LD_PRELOAD", env={"LD_PRELOAD": "libm.so.6"})
    assert kept.stdout == "libm.so.6\n"


def test_programs_that_cannot_be_started(tmp_path: Path) -> None:
    done = run("--", "no-such-program")
    assert (done.returncode, done.stderr) == (127, "proactor run: no-such-program: no such program\n")
    done = run(str(tmp_path / "neither"))
    assert done.returncode == 127
    plain = tmp_path / "plain"
    plain.write_text("text")
    done = run(str(plain))
    assert done.returncode == 126
    assert "Permission denied" in done.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--pool=3"],
        ["--pool=0"],
        ["--pool=4096"],
        ["--per-socket=1"],
        ["--per-socket=8g"],
        ["--only=x"],
        ["--only=99999"],
        ["--only=0"],
        [],
    ],
    ids=" ".join,
)
def test_misuse(options: list[str]) -> None:
    done = run(*options, *(["true"] if options else []))
    assert done.returncode == 2
    assert done.stderr


@pytest.mark.parametrize(
    "options", [["--no-such-option"], ["--only=1", "-x"], ["--", "--explain"]], ids=" ".join
)
def test_unknown_options_are_no_programs(options: list[str]) -> None:
    done = run(*options, "true")
    assert done.returncode == 2
    assert f"{options[-1]}: no such option" in done.stderr


def test_without_a_library(tmp_path: Path) -> None:
    done = run("--library", str(tmp_path / "none.so"), "true")
    assert done.returncode == 2
    assert done.stderr == f"proactor run: {tmp_path}/none.so: No such file or directory (os error 2)\n"
    text = tmp_path / "text.so"
    text.write_text("no library")
    assert run("true", env={"PROACTOR_PRELOAD": str(text)}).stderr == f"proactor run: {text} is no library\n"
    with_space = tmp_path / "a library.so"
    with_space.write_bytes(LIBRARY.read_bytes())
    assert "colon or a space" in run("--library", str(with_space), "true").stderr


@needs("io_uring")
def test_a_stats_file_that_cannot_be_written(tmp_path: Path) -> None:
    done = run(f"--stats={tmp_path}/none/stats", "true")
    assert done.returncode == 2
    assert "No such file" in done.stderr


# What servers do before they serve.
DROP = """
import os, sys
os.closerange(3, 2000)
os.chdir("/")
if "chroot" in sys.argv:
    os.chroot("/proc/self/fdinfo")
os.setgid(65534)
os.setuid(65534)
"""
# Another file takes the number of the one of the statistics, by a call that no hook sees.
REPLACE = """
import ctypes, os, sys
name = sys.argv[1] + "/stats"
for fd in map(int, os.listdir("/proc/self/fd")):
    try:
        if os.path.samestat(os.fstat(fd), os.stat(name)):
            other = os.open(sys.argv[1] + "/other", os.O_CREAT | os.O_RDWR)
            syscall = ctypes.CDLL(None).syscall
            syscall({"x86_64": 292, "aarch64": 24}[os.uname().machine], other, fd, 0)
    except OSError:
        pass
"""


@needs("io_uring", "root")
@pytest.mark.parametrize("change", ["user", "chroot"])
def test_stats_of_a_program_that_drops_its_rights(tmp_path: Path, change: str) -> None:
    done = run(f"--stats={tmp_path}/stats", "--", sys.executable, "-c", DROP, change)
    assert (done.returncode, done.stderr) == (0, "")
    (line,) = (tmp_path / "stats").read_text().splitlines()
    assert json.loads(line)["sockets"] == 0


@needs("io_uring")
def test_stats_go_into_no_other_file(tmp_path: Path) -> None:
    done = run(f"--stats={tmp_path}/stats", "--", sys.executable, "-c", REPLACE, str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "other").read_text() == ""
    assert (tmp_path / "stats").read_text().count("\n") == 1


def check_obstacle(command: list[str], why: str) -> None:
    done = run(*command)
    assert done.stderr == f"proactor run: {command[0]}: {why}; it runs without a ring\n"
    assert done.returncode == 0
    strict = run("--strict", *command)
    assert (strict.returncode, strict.stderr) == (2, f"proactor run: {command[0]}: {why}\n")


def test_a_static_program(tmp_path: Path) -> None:
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 0; }")
    program = tmp_path / "static"
    subprocess.run(["cc", "-static", "-o", str(program), str(source)], check=True, timeout=60)
    check_obstacle([str(program)], "it is statically linked, so nothing can be loaded into it")
    script = tmp_path / "script"
    script.write_text(f"#!{program}\n")
    script.chmod(0o755)
    check_obstacle([str(script)], "it is statically linked, so nothing can be loaded into it")


# What tells of a program is in its file, so a small one in C can have it.
MARKED = """
#include <stdio.h>
int main(int argc, char **argv) {{
    return argc > 5 ? puts({}) : 0;
}}
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (r'"\xff Go buildinf:"', "it is written in Go, whose system calls do not go through the C library"),
        ('"liburing.so.2"', "it uses io_uring already"),
    ],
    ids=["Go", "io_uring"],
)
def test_programs_with_calls_of_their_own(tmp_path: Path, text: str, why: str) -> None:
    source, program = tmp_path / "marked.c", tmp_path / "marked"
    source.write_text(MARKED.format(text))
    subprocess.run(["cc", "-o", str(program), str(source)], check=True, timeout=60)
    check_obstacle([str(program)], why)


def test_another_c_library(tmp_path: Path) -> None:
    source, program = tmp_path / "other.c", tmp_path / "other"
    source.write_text("int main(void) { return 0; }")
    # The loader of musl by its name, which is this system's own, so that the program runs.
    loader = re.findall(rb"/\S*/ld-linux\S*?\.so\.\d", Path(sys.executable).resolve().read_bytes())[
        0
    ].decode()
    (tmp_path / "ld-musl-any.so.1").symlink_to(loader)
    linked = f"-Wl,--dynamic-linker={tmp_path}/ld-musl-any.so.1"
    subprocess.run(["cc", linked, "-o", str(program), str(source)], check=True, timeout=60)
    check_obstacle([str(program)], "it uses another C library (musl) than the library to load")


@needs("root")
def test_a_setuid_program(tmp_path: Path) -> None:
    program = tmp_path / "true"
    program.write_bytes(Path("/bin/true").read_bytes())
    os.chown(program, 65534, 65534)
    program.chmod(0o755 | stat.S_ISUID)
    check_obstacle([str(program)], "it is a setuid or setgid program, into which nothing is loaded")


@needs("seccomp filter")
def test_a_denied_ring() -> None:
    done = run("echo", "yes", before=DENIED)
    assert (done.returncode, done.stdout) == (0, "yes\n")
    assert done.stderr.startswith("proactor run: echo: ")
    assert done.stderr.endswith("; it runs without a ring\n")
    assert done.stderr.count("\n") == 1
    strict = run("--strict", "echo", before=DENIED)
    assert (strict.returncode, strict.stdout) == (2, "")
