"""Connections that a program closes while another process has them: bytes and end are as on plain epoll."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import needs
from run_helpers import RUN, counts

pytestmark = needs("io_uring")

# The other process has the connection by a fork, before or after it is in the set, or by a message.
# Replies are queued, since four more connections are ready with it.
PROGRAM = """
import os, select, socket, sys

how, what = sys.argv[1:]
listener = socket.create_server(("127.0.0.1", 0))

def connected():
    peer = socket.create_connection(listener.getsockname())
    peer.settimeout(5)
    near, _ = listener.accept()
    near.setblocking(False)
    return near, peer

def other(near):
    # Waits until this process has closed its own.
    os.read(gate[0], 1)
    near.setblocking(True)
    if what != "ends":
        got = b""
        while len(got) < (12 if what == "unread" else 6):
            got += near.recv(100)
        print("other reads", got, flush=True)
        near.sendall(b"other's ")
    os._exit(0)

def forked(near):
    child = os.fork()
    if child == 0:
        other(near)
    return child

gate = os.pipe()
near, peer = connected()
more = [connected() for _ in range(4)]
child = 0
if how == "forked before":
    child = forked(near)
elif how == "sent":
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        near.close()
        _, fds, _, _ = socket.recv_fds(theirs, 10, 1)
        other(socket.socket(fileno=fds[0]))
poll = select.epoll()
for one, _ in [(near, peer), *more]:
    poll.register(one, select.EPOLLIN)
poll.poll(0)
if how == "forked after":
    child = forked(near)
for _, one in [(near, peer), *more]:
    one.sendall(b"first ")
ready = set()
while len(ready) < 5:
    ready |= {fd for fd, _ in poll.poll(5)}
if what != "unread":
    print("reads", near.recv(100))
print("writes", near.send(b"ours "))
if how == "sent":
    socket.send_fds(ours, [b"x"], [near.fileno()])
near.close()
for one, _ in more:
    one.send(one.recv(100))
poll.poll(0)
print("peer", peer.recv(100))
peer.setblocking(False)
try:
    print("peer", peer.recv(100))
except BlockingIOError:
    print("no end yet")
peer.settimeout(5)
if what != "ends":
    peer.sendall(b"later ")
os.write(gate[1], b"x")
os.waitpid(child, 0)
print("peer", b"".join(iter(lambda: peer.recv(100), b"")), "and the end")
print("others", [one.recv(100) for _, one in more])
"""


WAYS = [
    (how, what)
    for how in ("forked before", "forked after", "sent")
    for what in ("ends", "goes on", "unread")
    # What the ring has taken stays in its process (docs/run.md).
    if (how, what) not in (("sent", "unread"), ("forked before", "unread"))
]


@pytest.mark.parametrize(("how", "what"), WAYS)
def test_it_ends_when_the_last_process_closes_it(tmp_path: Path, how: str, what: str) -> None:
    command = [sys.executable, "-c", PROGRAM, how, what]

    def output(before: list[str]) -> str:
        done = subprocess.run([*before, *command], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        return done.stdout

    plain = output([])
    assert "no end yet" in plain
    stats = tmp_path / "stats"
    assert output([*RUN, "--strict", f"--stats={stats}", "--"]) == plain
    assert sum(int(str(one["sockets"])) for one in counts(stats)) >= 4
