"""Sends without a copy: correct over a network (a veth pair of two namespaces), and never on loopback."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from capabilities import needs
from serve_helpers import DEADLINE_S, Server, receive, refused, serving

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
HOST = "10.77.0.1"

# Each connection has bytes of its own. Some readers are slow, some connections are reset.
CLIENT = """
import random, selectors, socket, struct, sys

port, habit = int(sys.argv[1]), sys.argv[2]
input()
COUNT, LENGTH = 12, 1_500_000

def connect():
    # The other end of the pair takes a moment to come up.
    return socket.create_connection(("10.77.0.1", port), timeout=30)

class One:
    def __init__(self, number):
        self.number = number
        self.bytes = random.Random(number).randbytes(LENGTH)
        self.sent = self.got = 0
        self.socket = connect()
        if number % 3 == 0:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        self.socket.setblocking(False)

    def step(self, events):
        if events & selectors.EVENT_WRITE and self.sent < LENGTH:
            end = self.sent + random.choice((1, 100, 5000, 100_000))
            try:
                self.sent += self.socket.send(self.bytes[self.sent:end])
            except BlockingIOError:
                pass
        if events & selectors.EVENT_READ and (self.number % 3 or random.random() < 0.3):
            piece = self.socket.recv(random.choice((1000, 65536)))
            assert piece, "the stream ended"
            assert piece == self.bytes[self.got:self.got + len(piece)], (self.number, self.got)
            self.got += len(piece)
        if self.number % 4 == 3 and self.got > LENGTH // 2:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return True
        return self.got == LENGTH

if habit == "stall":
    sockets = [connect() for _ in range(5)]
    for one in sockets:
        one.setblocking(False)
        sent = 0
        try:
            while sent < 20_000_000:
                sent += one.send(bytes(100_000))
        except BlockingIOError:
            pass
    print("stalled", flush=True)
    input()
else:
    selector = selectors.DefaultSelector()
    for number in range(COUNT):
        one = One(number)
        selector.register(one.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, one)
    while selector.get_map():
        for key, events in selector.select(30):
            if key.data.step(events):
                selector.unregister(key.data.socket)
                key.data.socket.close()
    print("done", flush=True)
"""


def leave_network() -> None:
    if LIBC.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def within(pid: int, *command: str) -> None:
    subprocess.run(["nsenter", "-t", str(pid), "-n", *command], check=True, timeout=DEADLINE_S)


@contextmanager
def apart(habit: str, *options: str) -> Iterator[tuple[Server, subprocess.Popen[str]]]:
    """A server and a client with a network of their own between them."""
    with serving(
        "echo", "--host=0.0.0.0", "--engine=uring", "--stats=json", *options, preexec_fn=leave_network
    ) as server:
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT, str(server.port), habit],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=leave_network,
        )
        try:
            # It has left this namespace once it runs the program.
            own = Path("/proc/self/ns/net").readlink()
            assert Path(f"/proc/{client.pid}/ns/net").readlink() != own
            pair = ["ip", "link", "add", "near", "netns", str(server.process.pid), "type", "veth"]
            subprocess.run(
                [*pair, "peer", "name", "far", "netns", str(client.pid)], check=True, timeout=DEADLINE_S
            )
            for pid, name, address in ((server.process.pid, "near", HOST), (client.pid, "far", "10.77.0.2")):
                within(pid, "ip", "address", "add", f"{address}/24", "dev", name)
                within(pid, "ip", "link", "set", name, "up")
            yield server, client
        finally:
            client.kill()
            client.communicate()


def tell(client: subprocess.Popen[str]) -> str:
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write("\n")
    client.stdin.flush()
    return client.stdout.readline()


@needs("root", "io_uring", "network namespace")
@pytest.mark.parametrize("options", [[], ["--kernel-workers=1"]], ids=["user", "kernel"])
def test_bytes_over_a_network(options: list[str]) -> None:
    with apart("echo", "--zero-copy-above=1", *options) as (server, client):
        assert tell(client) == "done\n"
        status, said, complained = server.end()
        assert (status, complained) == (0, "")
        end = server.last_line(said)
        # How many bytes a send takes, and so how many sends there are, is a matter of time.
        assert end["zero_copy_sends"] > 0
        assert end["accepted"] == end["closed"] == 12


@needs("root", "io_uring", "network namespace")
def test_stalled_peers_do_not_keep_a_server() -> None:
    # The kernel has the memory of their sends, and will have it for as long as the peers do not read.
    with apart("stall", "--zero-copy-above=1", "--grace=100ms") as (server, client):
        assert tell(client) == "stalled\n"
        status, said, complained = server.end()
        assert status == 0
        assert "5 connections" in complained
        assert server.last_line(said)["zero_copy_sends"] > 0


@needs("root", "io_uring", "network namespace")
def test_an_idle_peer_is_closed_while_the_kernel_has_its_bytes() -> None:
    with apart("stall", "--zero-copy-above=1", "--idle-timeout=200ms") as (server, client):
        assert tell(client) == "stalled\n"
        while (line := server.line())["idle_closed"] == 0:
            pass
        while line["connections"] > 0:
            line = server.line()
        assert server.end()[0] == 0


@needs("io_uring")
def test_never_to_this_machine() -> None:
    with serving("echo", "--engine=uring", "--zero-copy-above=1", "--stats=json") as server:
        with server.connect() as stream:
            stream.sendall(bytes(100_000))
            assert receive(stream, 100_000) == bytes(100_000)
        status, said, _ = server.end()
        assert status == 0
        assert server.last_line(said)["zero_copy_sends"] == 0


def test_it_needs_a_ring() -> None:
    assert "needs io_uring" in refused("echo", "--engine=epoll", "--zero-copy-above=1m")
    environment = {**os.environ, "PROACTOR_ENGINE": "threads"}
    assert "needs io_uring" in refused("echo", "--zero-copy-above=1m", env=environment)
