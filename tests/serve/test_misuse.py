"""What cannot be served is refused in a sentence that says what to change, and nothing is started."""

from __future__ import annotations

import ctypes
import resource
import socket
from pathlib import Path

import pytest
from capabilities import needs
from serve_helpers import refused


def said(*arguments: str, **more: object) -> str:
    text = refused(*arguments, **more)
    assert text.startswith("proactor serve: "), text
    assert text.count("\n") == 1, text
    return text


def test_a_port_that_is_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0), reuse_port=True) as listener:
        port = listener.getsockname()[1]
        for workers in (1, 2):
            text = said("echo", f"--port={port}", f"--workers={workers}")
            assert f"127.0.0.1:{port}" in text
            assert "choose another one" in text


def test_a_name_that_does_not_resolve() -> None:
    assert "--host no.such.name.invalid: this name has no address" in said(
        "echo", "--host=no.such.name.invalid"
    )


def test_an_address_that_is_not_ours() -> None:
    assert "no interface of this machine has this address" in said("echo", "--host=192.0.2.1")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("--workers=0", "from 1 to 1024"),
        ("--workers=1000000000", "from 1 to 1024"),
        ("--workers=x", "from 1 to 1024"),
        ("--max-connections=0", "of at least 1"),
        ("--port=65536", "65536"),
        ("--idle-timeout=0", "more than 0"),
        ("--max-buffered=0", "at least 1 byte"),
        ("--grace=1y", "no time"),
        ("--engine=kqueue", "epoll"),
        ("--backlog=0", "of at least 1"),
    ],
)
def test_numbers_that_mean_nothing(option: str, hint: str) -> None:
    assert hint in refused("echo", option)


def test_options_that_do_not_go_together(tmp_path: Path) -> None:
    assert "--max-line is for `proactor serve line` only" in said("echo", "--max-line=5")
    assert "--max-memory is for `proactor serve resp` only" in said("line", "--max-memory=5")
    assert "each worker needs one" in said("echo", "--workers=3", "--max-connections=2")
    assert "cannot be used with" in refused("echo", "--port=1", f"--unix={tmp_path}/x")
    assert "cannot be used with" in refused("echo", "--host=::1", f"--unix={tmp_path}/x")
    assert "--stats" in refused("echo", "--stats-interval=5s")


def test_unix_paths(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    assert "choose another path" in said("echo", f"--unix={file}")
    assert file.read_text() == "x"
    assert "at most 107 bytes" in said("echo", f"--unix={tmp_path}/{'x' * 108}")
    assert "No such file" in said("echo", f"--unix={tmp_path}/none/x")
    assert "write a path" in said("echo", "--unix=@")


def test_a_ready_file_that_cannot_be_written(tmp_path: Path) -> None:
    assert "choose another file" in said("echo", f"--ready-file={tmp_path}/none/ready")


def test_too_few_descriptors() -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))

    text = said("echo", "--max-connections=1000", preexec_fn=few)
    assert "RLIMIT_NOFILE allows 30" in text
    assert "--max-connections" in text
    assert "--workers" in said("echo", "--workers=100", preexec_fn=few)


@needs("root", "io_uring")
def test_too_little_locked_memory() -> None:
    def none() -> None:
        # PR_CAPBSET_DROP of CAP_IPC_LOCK, for which there is no limit.
        assert ctypes.CDLL(None).prctl(24, 14, 0, 0, 0) == 0
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (0, 0))

    text = said("echo", "--engine=uring", preexec_fn=none)
    assert "RLIMIT_MEMLOCK" in text
    assert "--engine auto or epoll" in text


@needs("root")
def test_ports_of_root() -> None:
    if int(Path("/proc/sys/net/ipv4/ip_unprivileged_port_start").read_text()) == 0:
        return

    def give_up_the_capability() -> None:
        # PR_CAPBSET_DROP: the program that is started then has not got it, although it is root's.
        assert ctypes.CDLL(None).prctl(24, 10, 0, 0, 0) == 0

    assert "CAP_NET_BIND_SERVICE" in said("echo", "--port=81", preexec_fn=give_up_the_capability)


def test_options_that_are_given_again() -> None:
    text = refused("echo", "--workers=2", "--workers=3", "--max-connections=1")
    warning, problem = text.splitlines()
    assert warning == "proactor serve: warning: --workers is given 2 times, and only the last one counts"
    assert "each worker needs one" in problem


def test_options_of_a_file_are_there_to_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("workers = 2\n")
    text = refused("echo", f"--config={tmp_path}/config", "--workers=3", "--max-connections=1")
    assert "warning" not in text
