"""SIGHUP, Ctrl-C and SIGTERM: the copy ends in order, says what is done, and tells with its exit status."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from pathlib import Path

import pytest
from cp_helpers import DEADLINE_S, proactor_command, wait_until


def start(directory: Path, *arguments: str, **more: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        proactor_command("cp", *arguments), cwd=directory, stderr=subprocess.PIPE, text=True, **more
    )


@pytest.mark.parametrize(
    ("number", "times", "status"),
    [(signal.SIGHUP, 1, 129), (signal.SIGHUP, 2, 129), (signal.SIGINT, 1, 130), (signal.SIGTERM, 1, 143)],
)
def test_ends_in_order(tmp_path: Path, number: signal.Signals, times: int, status: int) -> None:
    """A terminal that is closed may send its signal twice."""
    (tmp_path / "dest").mkdir()
    # Below nohup one is ignored, which a child would inherit.
    heard = {"preexec_fn": lambda: signal.signal(number, signal.SIG_DFL)}
    process = start(tmp_path, "--progress=never", "/dev/zero", "dest/zero", **heard)
    with process:
        # It is copied into a file with a partial name, which grows until the disk is full.
        wait_until(lambda: any(path.stat().st_size > 0 for path in (tmp_path / "dest").iterdir()))
        for _ in range(times):
            process.send_signal(number)
            wait_until(lambda: process.poll() is not None or not is_pending(process.pid, number))
        _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == status
    assert "proactor cp: interrupted: 0 files and 0 directories copied" in said
    assert "Traceback" not in said
    assert list((tmp_path / "dest").iterdir()) == [], "a file in the middle is taken back"


def test_second_one_ends_at_once(tmp_path: Path) -> None:
    """While it writes to a terminal that nobody reads, it hears the first, but cannot see it."""
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    master, slave = pty.openpty()
    try:
        with start(tmp_path, "a", os.ttyname(slave)) as process:
            wait_until(lambda: "tty" in Path(f"/proc/{process.pid}/wchan").read_text() or waits(process.pid))
            process.send_signal(signal.SIGINT)
            wait_until(lambda: not is_pending(process.pid, signal.SIGINT))
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=DEADLINE_S) == 130
    finally:
        os.close(master)
        os.close(slave)


@pytest.mark.parametrize(
    ("arguments", "held"),
    [
        # A source without a writer, with one that says nothing, and one that is a terminal.
        ("fifo new", None),
        ("fifo new", "fifo"),
        ("-r --copy-contents tree new", None),
        ("TERMINAL new", None),
        # A target without a reader, and with one that does not read.
        ("long fifo", None),
        ("-rT tree other", None),
        ("long fifo", "fifo"),
    ],
)
def test_nobody_at_the_other_end(tmp_path: Path, arguments: str, held: str | None) -> None:
    """The first one is heard there as well."""
    (tmp_path / "long").write_bytes(bytes(1 << 20))
    for name in ("tree", "other"):
        (tmp_path / name).mkdir()
    os.mkfifo(tmp_path / "fifo")
    if "copy-contents" in arguments:
        os.mkfifo(tmp_path / "tree/fifo")
    else:
        (tmp_path / "tree/file").write_text("new\n")
        os.mkfifo(tmp_path / "other/file")
    master, slave = pty.openpty()
    holding = [master, slave] + ([os.open(tmp_path / held, os.O_RDWR)] if held else [])
    try:
        words = arguments.replace("TERMINAL", os.ttyname(slave)).split()
        with start(tmp_path, "--progress=never", *words) as process:
            wait_until(lambda: waits(process.pid), process)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=DEADLINE_S)
    finally:
        for fd in holding:
            os.close(fd)
    assert process.returncode == 130
    assert "interrupted: 0 files" in said
    assert not (tmp_path / "new").exists()


def waits(pid: int) -> bool:
    """Whether all threads sleep and signals are caught: the copy is under way."""
    caught = field(pid, "SigCgt")
    states = [
        (task / "stat").read_text().rsplit(")", 1)[1].split()[0]
        for task in Path(f"/proc/{pid}/task").iterdir()
    ]
    return bool(caught & (1 << (signal.SIGTERM - 1))) and all(state == "S" for state in states)


def is_pending(pid: int, number: signal.Signals) -> bool:
    return bool((field(pid, "SigPnd") | field(pid, "ShdPnd")) & (1 << (number - 1)))


def field(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:")), 16)


def test_at_a_question(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    process = start(tmp_path, "-i", "a", "b", stdin=subprocess.PIPE)
    with process:
        assert process.stderr is not None
        assert process.stderr.read(28) == "proactor cp: overwrite 'b'? "
        process.send_signal(signal.SIGINT)
        process.wait(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert (tmp_path / "b").read_text() == "b"


def test_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    """As in a background job of a shell, or below nohup."""
    (tmp_path / "a").write_text("a")
    script = f'trap "" INT; {" ".join(proactor_command("cp"))} -i a b & echo $!; wait $!'
    os.mkfifo(tmp_path / "fifo")
    shell = subprocess.Popen(
        ["sh", "-c", script.replace("-i a b", "fifo new")], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    with shell:
        assert shell.stdout is not None
        pid = int(shell.stdout.readline())
        wait_until(lambda: bool(field(pid, "SigCgt") & (1 << (signal.SIGTERM - 1))))
        os.kill(pid, signal.SIGINT)
        (tmp_path / "fifo").write_text("went on\n")
        assert shell.wait(timeout=DEADLINE_S) == 0
    assert (tmp_path / "new").read_text() == "went on\n"


# Back to the start of the line, which is cleared.
CLEARED = b"\r\x1b[2K"


def test_progress_on_a_terminal(tmp_path: Path) -> None:
    """A line that is written again and again, and taken away at the end."""
    os.mkfifo(tmp_path / "fifo")
    ours, theirs = pty.openpty()
    try:
        environment = os.environ | {"TERM": "xterm"}
        command = proactor_command("cp", "fifo", "new")
        process = subprocess.Popen(command, cwd=tmp_path, stderr=theirs, env=environment)
        os.close(theirs)
        said = b""
        with process, (tmp_path / "fifo").open("wb") as writer:
            writer.write(b"x" * 5000)
            writer.flush()
            while b"5.0 kB" not in said:
                said += os.read(ours, 1000)
            writer.close()
            assert process.wait(timeout=DEADLINE_S) == 0
        said += os.read(ours, 1000)
    finally:
        os.close(ours)
    assert b"0 files, 5.0 kB, " in said
    assert said.endswith(CLEARED)


def test_progress_is_as_narrow_as_its_terminal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 12, 0, 0))
        environment = os.environ | {"TERM": "xterm"}
        command = proactor_command("cp", "fifo", "new")
        process = subprocess.Popen(command, cwd=tmp_path, stderr=theirs, env=environment)
        os.close(theirs)
        said = b""
        with process, (tmp_path / "fifo").open("wb") as writer:
            while b"0 files, " not in said:
                said += os.read(ours, 1000)
            writer.close()
            assert process.wait(timeout=DEADLINE_S) == 0
        said += os.read(ours, 1000)
    finally:
        os.close(ours)
    assert max(map(len, said.split(CLEARED))) == 12


def test_progress_in_a_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    process = start(tmp_path, "--progress=always", "fifo", "new")
    with process, (tmp_path / "fifo").open("wb") as writer:
        assert process.stderr is not None
        assert "files, " in process.stderr.readline()
        writer.close()
        assert process.wait(timeout=DEADLINE_S) == 0
