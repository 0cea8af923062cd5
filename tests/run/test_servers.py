"""nginx and memcached on a ring: clients get what is there, also while nginx is reloaded."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path

from capabilities import needs
from run_helpers import RUN, free_port, program, server

pytestmark = needs("io_uring")

CLIENTS = 20


def at_once(work: Callable[[int], None]) -> None:
    """Runs it for each client, and fails if any has failed or hangs."""
    failures: list[BaseException] = []

    def one(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures, failures


def counts(stats: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in stats.read_text().splitlines()]


@needs("memcached")
def test_memcached(tmp_path: Path) -> None:
    port = free_port()
    stats = tmp_path / "stats"
    command = [*RUN, "--strict", f"--stats={stats}", "--", program("memcached")]
    options = ["-p", str(port), "-l", "127.0.0.1", "-U", "0", "-t", "4", "-u", "root"]

    def client(number: int) -> None:
        rng = random.Random(number)
        with socket.create_connection(("127.0.0.1", port), timeout=30) as sock, sock.makefile("rb") as file:
            for _ in range(100):
                value = rng.randbytes(rng.choice([0, 1, 100, 4096, 9000, 50_000]))
                sock.sendall(b"set k%d 0 0 %d\r\n%s\r\n" % (number, len(value), value))
                assert file.readline() == b"STORED\r\n"
                sock.sendall(b"get k%d\r\n" % number)
                assert file.readline() == b"VALUE k%d 0 %d\r\n" % (number, len(value))
                assert file.read(len(value) + 2) == value + b"\r\n"
                assert file.readline() == b"END\r\n"

    with server([*command, *options], port):
        at_once(client)
    (found,) = counts(stats)
    assert isinstance(found["sockets"], int)
    assert found["sockets"] >= CLIENTS
    assert found["handed_back"] == {}


CONFIGURATION = """
{user}
daemon off;
worker_processes 2;
pid {place}/pid;
error_log {place}/errors;
events {{ worker_connections 256; }}
http {{
    access_log off;
    sendfile on;
    keepalive_requests 100000;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
    server {{ listen 127.0.0.1:{port}; root {place}/files; }}
    server {{
        listen 127.0.0.1:{proxy};
        location / {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; }}
    }}
}}
"""


@needs("nginx")
def test_nginx(tmp_path: Path) -> None:
    port, proxy = free_port(), free_port()
    stats = tmp_path / "stats"
    files = {
        name: random.Random(name).randbytes(size) for name, size in (("small", 1024), ("large", 102_400))
    }
    (tmp_path / "files").mkdir(mode=0o755)
    for name, content in files.items():
        (tmp_path / "files" / name).write_bytes(content)
    configuration = tmp_path / "nginx.conf"
    # Its workers would be nobody's, who sees nothing of this directory.
    user = "user root;" if os.geteuid() == 0 else ""
    configuration.write_text(CONFIGURATION.format(user=user, place=tmp_path, port=port, proxy=proxy))
    command = [*RUN, "--strict", f"--stats={stats}", "--", program("nginx"), "-c", str(configuration)]

    def get(sock: socket.socket, name: str) -> None:
        sock.sendall(f"GET /{name} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        with sock.makefile("rb") as file:
            assert file.readline() == b"HTTP/1.1 200 OK\r\n"
            headers = dict(line.split(b": ", 1) for line in iter(file.readline, b"\r\n"))
            assert file.read(int(headers[b"Content-Length"])) == files[name]

    def client(number: int) -> None:
        where = (port, proxy)[number % 2]
        with socket.create_connection(("127.0.0.1", where), timeout=30) as sock:
            for turn in range(30):
                get(sock, ("small", "large")[(turn + number) % 2])
        # One that is reset with an answer under way.
        with socket.create_connection(("127.0.0.1", where), timeout=30) as sock:
            sock.sendall(b"GET /large HTTP/1.1\r\nHost: here\r\n\r\n")
            sock.recv(100)

    def visitor(number: int) -> None:
        # Workers that end close connections on which nothing is asked.
        for turn in range(10):
            where = (port, proxy)[(turn + number) % 2]
            with socket.create_connection(("127.0.0.1", where), timeout=30) as sock:
                get(sock, ("small", "large")[number % 2])

    with server(command, port) as child:
        at_once(client)
        child.send_signal(signal.SIGHUP)
        at_once(visitor)
        # It ends when what is under way is served.
        child.send_signal(signal.SIGQUIT)
        assert child.wait(20) == 0
    assert (tmp_path / "errors").read_text().count("[alert]") == 0
    assert sum(int(str(one["sockets"])) for one in counts(stats)) >= 4 * CLIENTS
