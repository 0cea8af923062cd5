"""nginx and memcached on a ring: clients get what is there, also while nginx is reloaded."""

from __future__ import annotations

import os
import random
import signal
import socket
from pathlib import Path

from capabilities import needs
from run_helpers import RUN, at_once, counts, free_port, program, server

pytestmark = needs("io_uring")

CLIENTS = 20


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
        at_once(client, CLIENTS)
        child.send_signal(signal.SIGHUP)
        at_once(visitor, CLIENTS)
        # It ends when what is under way is served.
        child.send_signal(signal.SIGQUIT)
        assert child.wait(20) == 0
    assert (tmp_path / "errors").read_text().count("[alert]") == 0
    assert sum(int(str(one["sockets"])) for one in counts(stats)) >= 4 * CLIENTS
