"""nginx on rings, two workers: clients get what is there, also when it is reloaded or its binary replaced."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from capabilities import needs
from run_helpers import RUN, at_once, certificate, counts, free_port, program, server, wrk

pytestmark = needs("io_uring", "nginx", "openssl")

CLIENTS = 20
CONFIGURATION = """
{user}
daemon {daemon};
# nginx takes all else out of the environment of the binary that replaces it.
env LD_PRELOAD; env PROACTOR_RUN; env PROACTOR_RUN_STATS;
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
    ssl_certificate {place}/certificate.pem;
    ssl_certificate_key {place}/key.pem;
    server {{ listen 127.0.0.1:{port}; root {place}/files; }}
    server {{ listen 127.0.0.1:{tls} ssl; root {place}/files; }}
    server {{
        listen 127.0.0.1:{proxy};
        location / {{ proxy_pass http://127.0.0.1:{port}; proxy_http_version 1.1; }}
    }}
}}
"""
FILES = {name: random.Random(name).randbytes(size) for name, size in (("small", 1024), ("large", 102_400))}


@dataclass
class Nginx:
    place: Path
    port: int
    tls: int
    proxy: int
    process: subprocess.Popen[bytes] = field(init=False)

    def connect(self, number: int) -> socket.socket:
        """A connection to one of its three servers."""
        where = (self.port, self.proxy, self.tls)[number % 3]
        plain = socket.create_connection(("127.0.0.1", where), timeout=30)
        if where != self.tls:
            return plain
        context = ssl.create_default_context(cafile=self.place / "certificate.pem")
        return context.wrap_socket(plain, server_hostname="localhost")

    def workers(self) -> set[int]:
        pid = self.process.pid
        return set(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))

    def counts(self) -> list[dict[str, object]]:
        return counts(self.place / "stats")


def prepared(place: Path, *, daemon: bool = False) -> tuple[list[str], Nginx]:
    """The command, and what is known before it runs."""
    port, proxy, tls = free_port(), free_port(), free_port()
    (place / "files").mkdir(mode=0o755)
    for name, content in FILES.items():
        (place / "files" / name).write_bytes(content)
    certificate(place)
    configuration = place / "nginx.conf"
    # Its workers would be nobody's, who sees nothing of this directory.
    user = "user root;" if os.geteuid() == 0 else ""
    words = {"user": user, "place": place, "port": port, "proxy": proxy, "tls": tls}
    configuration.write_text(CONFIGURATION.format(**words, daemon="on" if daemon else "off"))
    command = [*RUN, "--strict", f"--stats={place}/stats", "--", program("nginx"), "-c", str(configuration)]
    return command, Nginx(place, port, tls, proxy)


@contextlib.contextmanager
def nginx(place: Path) -> Iterator[Nginx]:
    command, it = prepared(place)
    with server(command, it.port) as it.process:
        yield it
    assert (place / "errors").read_text().count("[alert]") == 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def ask(sock: socket.socket, name: str) -> None:
    sock.sendall(f"GET /{name} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


def get(sock: socket.socket, name: str) -> bool:
    """Whether the server answers, with the right bytes, and has not ended an idle connection."""
    ask(sock, name)
    with sock.makefile("rb") as file:
        try:
            status = file.readline()
        except ConnectionError:
            return False
        if not status:
            return False
        assert status == b"HTTP/1.1 200 OK\r\n"
        headers = dict(line.split(b": ", 1) for line in iter(file.readline, b"\r\n"))
        assert file.read(int(headers[b"Content-Length"])) == FILES[name]
    return True


def test_files(tmp_path: Path) -> None:
    with nginx(tmp_path) as it:

        def client(number: int) -> None:
            with it.connect(number) as sock:
                for turn in range(30):
                    assert get(sock, ("small", "large")[(turn + number) % 2])
            # One that is reset with an answer under way.
            with it.connect(number) as sock:
                ask(sock, "large")
                sock.recv(100)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # One that ends its side, and gets its answers all the same.
            with socket.create_connection(("127.0.0.1", it.port), timeout=30) as sock:
                for name in ("small", "large"):
                    ask(sock, name)
                sock.shutdown(socket.SHUT_WR)
                everything = b"".join(iter(lambda: sock.recv(65_536), b""))
                assert everything.count(FILES["small"]) == 1
                assert everything.endswith(FILES["large"])

        at_once(client, CLIENTS)
        # It ends when what is under way is served.
        it.process.send_signal(signal.SIGQUIT)
        assert it.process.wait(20) == 0
    assert sum(int(str(one["sockets"])) for one in it.counts()) >= 3 * CLIENTS


@needs("wrk", "curl")
def test_wrk_and_curl(tmp_path: Path) -> None:
    with nginx(tmp_path) as it:
        for where in (f"http://127.0.0.1:{it.port}", f"https://localhost:{it.tls}"):
            wrk(f"{where}/small")
            for _ in range(3):
                command = ["curl", "-sS", "--fail", "--cacert", str(tmp_path / "certificate.pem")]
                urls = [f"{where}/{name}" for name in ("small", "large", "small")]
                done = subprocess.run([*command, *urls], capture_output=True, timeout=60, check=True)
                assert done.stdout == FILES["small"] + FILES["large"] + FILES["small"]


class Visitors:
    """Clients that ask all the time, and connect again when a worker that ends has closed a connection."""

    def __init__(self, it: Nginx) -> None:
        self.it = it
        self.served = [0] * 6
        self.failures: list[BaseException] = []
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.visit, args=(number,)) for number in range(6)]

    def __enter__(self) -> Visitors:
        for thread in self.threads:
            thread.start()
        return self

    def visit(self, number: int) -> None:
        try:
            while not self.is_over.is_set():
                with self.it.connect(number) as sock:
                    while not self.is_over.is_set() and get(sock, ("small", "large")[number % 2]):
                        self.served[number] += 1
        except BaseException as error:
            self.failures.append(error)

    def wait_for_more(self) -> None:
        """Wait until each of them is served once more, on a connection of now."""
        before = list(self.served)

        def are_served() -> bool:
            assert not self.failures, self.failures
            return all(now > then + 2 for now, then in zip(self.served, before, strict=True))

        wait_until(are_served)

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join(30)
        assert not self.failures, self.failures


def test_a_reload_in_flight(tmp_path: Path) -> None:
    with nginx(tmp_path) as it:
        with Visitors(it) as visitors:
            for _ in range(3):
                visitors.wait_for_more()
                old = it.workers()
                it.process.send_signal(signal.SIGHUP)
                wait_until(lambda old=old: len(it.workers() - old) == 2)  # type: ignore[misc]
            visitors.wait_for_more()
        it.process.send_signal(signal.SIGQUIT)
        assert it.process.wait(20) == 0
    # Four times two workers, and the master.
    assert len(it.counts()) == 9
    assert sum(one["sockets"] != 0 for one in it.counts()) >= 4


def test_a_new_binary_in_flight(tmp_path: Path) -> None:
    # A master replaces its binary only when its parent is gone.
    command, it = prepared(tmp_path, daemon=True)
    pid, old_pid = tmp_path / "pid", tmp_path / "pid.oldbin"
    subprocess.run(command, check=True, timeout=60)
    # The shell's part of it has written a line.
    processes = len(it.counts())
    try:
        wait_until(lambda: pid.exists() and pid.read_text() != "")
        with Visitors(it) as visitors:
            visitors.wait_for_more()
            os.kill(int(pid.read_text()), signal.SIGUSR2)
            wait_until(lambda: old_pid.exists() and pid.exists() and pid.read_text() != "")
            # The workers of the old master end, then it does.
            os.kill(int(old_pid.read_text()), signal.SIGWINCH)
            visitors.wait_for_more()
            os.kill(int(old_pid.read_text()), signal.SIGQUIT)
            wait_until(lambda: not old_pid.exists() and len(it.counts()) >= processes + 3)
            old = it.counts()[processes:]
            visitors.wait_for_more()
    finally:
        for file in (old_pid, pid):
            with contextlib.suppress(OSError, ValueError):
                os.kill(int(file.read_text()), signal.SIGTERM)
    wait_until(lambda: not pid.exists() and len(it.counts()) >= processes + len(old) + 3)
    new = it.counts()[processes + len(old) :]
    for some in (old, new):
        assert sum(int(str(one["sockets"])) for one in some) > 0
    assert (tmp_path / "errors").read_text().count("[alert]") == 0


def test_an_answer_ends_with_the_end_of_tls(tmp_path: Path) -> None:
    with nginx(tmp_path) as it, it.connect(2) as sock:
        sock.sendall(b"GET /large HTTP/1.0\r\n\r\n")
        # Without the end of TLS, `recv` raises.
        everything = b"".join(iter(lambda: sock.recv(65_536), b""))
        assert everything.endswith(FILES["large"])
