"""Kernel workers: threads of the kernel that do a server's input and output."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from capabilities import needs
from guides import check_console_blocks
from serve_helpers import Server, receive, refused, serving, wait_until

pytest_plugins = ["serve_fixtures"]
pytestmark = needs("io_uring")

IDLE = "--sqpoll-idle=20"


def kernel_threads(server: Server) -> int:
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    return sum((task / "comm").read_text().startswith("iou-sqp-") for task in tasks)


@pytest.mark.parametrize(
    ("users", "kernel", "threads"),
    # With more kernel workers than user threads, one drives several rings; with fewer, rings share a worker.
    [(1, 1, 1), (1, 3, 3), (3, 1, 1), (2, 2, 2)],
)
def test_all_shapes_serve(users: int, kernel: int, threads: int) -> None:
    with serving("resp", f"--user-workers={users}", f"--kernel-workers={kernel}", IDLE) as server:
        # A thread has its name from when it first runs.
        wait_until(lambda: kernel_threads(server) == threads)
        with contextlib.ExitStack() as open_streams:
            streams = [open_streams.enter_context(server.connect()) for _ in range(12)]
            for _ in range(3):
                for stream in streams:
                    stream.sendall(b"PING\r\n" * 20)
                for stream in streams:
                    assert receive(stream, 140) == b"+PONG\r\n" * 20
        assert server.end()[0] == 0


def test_connections_go_to_the_ring_with_the_fewest(on: str) -> None:
    bound = 8
    with (
        serving("echo", on, "--workers=4", f"--max-connections={bound}") as server,
        contextlib.ExitStack() as open_streams,
    ):
        # The kernel alone would give one worker more than its share, and those would wait.
        streams = [open_streams.enter_context(server.connect()) for _ in range(bound)]
        for stream in streams:
            stream.sendall(b"abc")
        for stream in streams:
            assert receive(stream, 3) == b"abc"


def test_an_idle_kernel_worker_sleeps_and_wakes() -> None:
    options = (IDLE, "--stats=json", "--stats-interval=20ms")
    with serving("echo", "--kernel-workers=1", *options) as server, server.connect() as stream:
        for _ in range(2):
            stream.sendall(b"abc")
            assert receive(stream, 3) == b"abc"

            def sleeps() -> bool:
                return all(thread["cpu_s"] == 0 for thread in server.line()["threads"] if thread["kernel"])

            # The lines of statistics do not keep it awake.
            wait_until(sleeps)


@needs("two CPUs")
def test_user_threads_make_next_to_no_calls() -> None:
    """As long as a kernel worker is awake, and more is there before the user thread sleeps."""
    spin = ("--user-spin=1s", "--sqpoll-idle=10s")
    with serving("echo", "--kernel-workers=1", "--stats=json", *spin) as server:
        count, size = 2000, 100
        with server.connect() as stream:
            for _ in range(count):
                stream.sendall(b"x" * size)
                assert receive(stream, size) == b"x" * size
        status, said, _ = server.end()
        assert status == 0
        end = Server.last_line(said)
        assert end["requests"] >= count
        assert end["calls"] / end["requests"] < 0.01, end


def test_a_toml_file_has_the_same_options(tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    file.write_text('user-workers = 2\nkernel-workers = 1\nsqpoll-idle = 20\nstats = "json"\n')
    with serving("echo", f"--config={file}", "--workers=1") as server:
        # The command line counts.
        assert '"workers":1,"kernel_workers":1' in server.first_line
    file.write_text("workers = 2\nwrokers = 1\n")
    assert f"proactor serve: {file}:2: no option is called" in refused("echo", f"--config={file}")
    file.write_text("\nworkers = 0\n")
    assert f"{file}:2: invalid value '0'" in refused("echo", f"--config={file}")
    assert "cannot be read" in refused("echo", f"--config={tmp_path}/none")


def test_the_guide_from_fastio(tmp_path: Path) -> None:
    check_console_blocks("moving.md", tmp_path)


def test_import_of_a_fastio_configuration(tmp_path: Path) -> None:
    file = tmp_path / "fastio.conf"
    file.write_text("max_ker_worker = 1\nmax_usr_worker = 1\nmax_table_entry = 64\nmax_table_len = 10\n")
    with serving("echo", f"--import={file}", "--stats=json") as server:
        assert '"workers":1,"kernel_workers":1' in server.first_line
        _, _, complained = server.end()
        assert "max_table_len = 10: --queue=1024 (entries x pages are 640" in complained
    file.write_text("max_ker_worker = 1\nmax_usr_workers = 1\n")
    assert f"proactor serve: {file}:2: no setting is called" in refused(f"--import={file}")
    file.write_text("max_ker_worker -1\n")
    assert "has no =" in refused(f"--import={file}")


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        (("--kernel-workers=0",), "from 1 to 1024"),
        (("--kernel-workers=1000000000",), "from 1 to 1024"),
        (("--kernel-workers=1", "--engine=epoll"), "leave out --engine epoll"),
        (("--kernel-workers=1", "--kernel-cpus=9999"), "processor 9999 is offline, or not there"),
        (("--user-cpus=9999",), "processor 9999 is offline, or not there"),
        (("--iowq-cpus=9999",), "processor 9999 is offline, or not there"),
        (("--workers=2", "--user-cpus=0"), "2 user workers need 2 processors"),
        (("--kernel-cpus=0",), "--kernel-workers"),
        (("--kernel-workers=1", "--kernel-cpus=1-0"), "is no list of processors"),
        (("--queue=0",), "from 1 to 32768"),
    ],
)
def test_misuse(options: tuple[str, ...], hint: str) -> None:
    assert hint in refused("echo", *options)


@needs("two CPUs")
def test_processors_outside_the_cpuset() -> None:
    allowed = sorted(os.sched_getaffinity(0))

    def only_the_first() -> None:
        os.sched_setaffinity(0, {allowed[0]})

    text = refused("echo", f"--user-cpus={allowed[1]}", preexec_fn=only_the_first)
    assert f"processor {allowed[1]} is not in this process's cpuset; {allowed[0]} can be used" in text
