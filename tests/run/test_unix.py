"""Unix sockets under `proactor run`: whatever comes beside the bytes arrives as on plain epoll."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import needs
from run_helpers import RUN

pytestmark = needs("io_uring")

# A server with one Unix and one TCP connection in its set. Descriptors come in the middle of the bytes, after
# the server has waited, and are taken by one read and dropped by another. Credentials come because of an
# option that is set later.
SERVER = """
import os, select, socket, struct, sys

kind = sys.argv[1]
near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
if kind == "accepted":
    path = sys.argv[2]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        far = socket.socket(socket.AF_UNIX)
        far.connect(path)
        near, _ = listener.accept()
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
poll = select.epoll()
for one in (near, server):
    one.setblocking(False)
    poll.register(one, select.EPOLLIN)

def ready():
    return sorted("unix" if fd == near.fileno() else "tcp" for fd, _ in poll.poll(5))

client.sendall(b"over TCP")
print(ready(), server.recv(100))
far.sendall(b"first ")
print(ready())
reader, writer = os.pipe()
socket.send_fds(far, [b"second"], [writer])
socket.send_fds(far, [b" third"], [writer])
print(ready(), near.recv(3), ready())
text, fds, _, _ = socket.recv_fds(near, 100, 5)
while len(text) < 9:
    more, others, _, _ = socket.recv_fds(near, 9 - len(text), 5)
    text, fds = text + more, fds + others
print(text, len(fds), ready())
os.write(fds[0], b"through the descriptor")
print(os.read(reader, 100), near.recv(100))
near.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
far.sendall(b"who")
print(ready())
text, control, _, _ = near.recvmsg(100, 100)
pid = struct.unpack("3i", control[0][2])[0]
print(text, pid == os.getpid())
far.close()
print(ready(), near.recv(100))
"""


@pytest.mark.parametrize("kind", ["pair", "accepted"])
def test_descriptors_and_credentials_arrive(kind: str, tmp_path: Path) -> None:
    def output(before: list[str]) -> str:
        path = tmp_path / f"socket{len(before)}"
        command = [*before, sys.executable, "-c", SERVER, kind, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    stats = tmp_path / "stats"
    plain = output([])
    assert "b'through the descriptor'" in plain
    assert output([*RUN, "--strict", f"--stats={stats}", "--"]) == plain
    counted = json.loads(stats.read_text().splitlines()[-1])
    assert (counted["sockets"], counted["unix_sockets_on_epoll"]) == (1, 1)


def test_it_is_said() -> None:
    done = subprocess.run(
        [*RUN, "--explain", "--", sys.executable, "-c", SERVER, "pair"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "1 Unix sockets stayed on epoll: their peers may send descriptors" in done.stderr
