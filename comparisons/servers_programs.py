"""What a request costs memcached, nginx and haproxy, plain and under `proactor run`: microseconds of CPU.

An unmodified server has 50 connections on the first processor and the load on the others, with one request
in flight on each connection. memcached has four threads and answers gets of 100 B. nginx has one worker
process and sends files of 1 KB and 100 KB. haproxy passes 512 B to the epoll server in C, which shares the
load's processors. CPU is that of all threads of the server and of its children. The contenders of a round
follow each other, and ratios are within rounds. The goal is at most 1.0 of plain everywhere.

    python comparisons/servers_programs.py
    python comparisons/servers_programs.py --setup "nginx, 1 KB"
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import lib
import servers_cells
import servers_lib
import summaries
import tables

# Each contender's options of `proactor run`; None: without it.
PLAIN = "plain"
CONTENDERS: dict[str, tuple[str, ...] | None] = {PLAIN: None, "proactor run": ()}
CONNECTIONS, VALUE = 50, b"v" * 100
ROUND_S, RAMP_S = 1.5, 0.2
TIMEOUT_S = 60
# memcached's text protocol, for one key.
GET = b"get key\r\n"
REPLY = b"VALUE key 0 %d\r\n%s\r\nEND\r\n" % (len(VALUE), VALUE)


@dataclass(frozen=True)
class Programs:
    """Our command, its library if that is not the one that came with it, and the servers in C."""

    command: str
    library: Path | None
    reference: Path

    def under(self, name: str, server: Sequence[str]) -> list[str]:
        options = CONTENDERS[name]
        if options is None:
            return list(server)
        library = [f"--library={self.library}"] if self.library else []
        return [self.command, "run", *library, *options, "--", *server]


@dataclass(frozen=True)
class Setup:
    program: str
    """What must be installed."""
    load: str
    """What `proactor bench net` says, or memcached."""
    size: int


SETUPS = {
    "memcached, 4 threads": Setup("memcached", "memcached", len(VALUE)),
    "nginx, 1 KB": Setup("nginx", "http", 1000),
    "nginx, 100 KB": Setup("nginx", "http", 100_000),
    "haproxy, TCP": Setup("haproxy", "echo", 512),
}

NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log stderr crit;
events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 1000000000; sendfile on;
  client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
  uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
  server {{ listen 127.0.0.1:{port}; root {folder}; }} }}
"""
HAPROXY = """
global
  nbthread 1
defaults
  mode tcp
  timeout connect 10s
  timeout client 60s
  timeout server 60s
listen echo
  bind 127.0.0.1:{port}
  server one 127.0.0.1:{behind}
"""


def found(program: str) -> str | None:
    """Debian has servers where only root looks."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin")


# Servers


def command(setup: Setup, port: int, behind: int, folder: Path) -> list[str]:
    program = found(setup.program)
    assert program is not None
    if setup.program == "memcached":
        return [program, "-l", "127.0.0.1", "-p", str(port), "-t", "4", "-u", "nobody"]
    config = folder / "config"
    if setup.program == "nginx":
        (folder / "file").write_bytes(bytes(setup.size))
        # nginx's worker is nobody.
        folder.chmod(0o755)
        config.write_text(NGINX.format(folder=folder, port=port))
        return [program, "-c", str(config)]
    config.write_text(HAPROXY.format(port=port, behind=behind))
    return [program, "-f", str(config)]


@contextmanager
def running(server: Sequence[str], port: int, processors: Sequence[int]) -> Iterator[int]:
    """The server's process, as long as it is needed."""
    process = subprocess.Popen(
        ["taskset", "--cpu-list", ",".join(map(str, processors)), *server], stdout=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{server[0]} does not answer") from None
                time.sleep(0.01)
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def cpu_ns(pid: int) -> int:
    """Of all its threads, and of its children."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
        total += sum(cpu_ns(int(child)) for child in (task / "children").read_text().split())
    return total


# Load


def memcached_gets(port: int, seconds: float) -> int:
    """All connections ask, then all are read. The number of replies, each of which is checked."""
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(CONNECTIONS)
        ]
        sockets[0].sendall(b"set key 0 0 %d\r\n%s\r\n" % (len(VALUE), VALUE))
        assert sockets[0].recv(100) == b"STORED\r\n"
        done, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            for one in sockets:
                one.sendall(GET)
            for one in sockets:
                assert one.recv(len(REPLY), socket.MSG_WAITALL) == REPLY
            done += len(sockets)
    return done


def load(programs: Programs, setup: Setup, port: int, seconds: float, folder: Path) -> int:
    """The number of requests that were served; raises where an answer was wrong."""
    if setup.load == "memcached":
        return memcached_gets(port, seconds)
    kept = folder / "report.json"
    # A ramp's requests would be the server's CPU and not counted.
    what = [
        programs.command,
        "bench",
        "net",
        str(port),
        f"--protocol={setup.load}",
        "--rounds=1",
        "--ramp=0ms",
    ]
    what += [f"--connections={CONNECTIONS}", f"--duration={round(seconds * 1000)}ms", f"--json={kept}"]
    what += ["--counters=none", "--path=/file" if setup.load == "http" else f"--size={setup.size}"]
    subprocess.run(what, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S, check=True)
    (cell,) = json.loads(kept.read_text())["cells"]
    return int(cell["rounds"][0]["all"]["ios"])


def measure(programs: Programs, name: str, setup: Setup, seconds: float) -> lib.Measured:
    processors = sorted(os.sched_getaffinity(0))
    server, client = processors[:1], processors[1:] or processors
    port, behind = servers_cells.free_port(), servers_cells.free_port()
    with tempfile.TemporaryDirectory() as made, ExitStack() as stack:
        folder = Path(made)
        if setup.program == "haproxy":
            echo = [str(programs.reference / "server-epoll"), f"port={behind}"]
            stack.enter_context(running(echo, behind, client))
        its = programs.under(name, command(setup, port, behind, folder))
        pid = stack.enter_context(running(its, port, server))
        os.sched_setaffinity(0, client)
        try:
            load(programs, setup, port, RAMP_S, folder)
            before = cpu_ns(pid)
            requests = load(programs, setup, port, seconds, folder)
            used = cpu_ns(pid) - before
        finally:
            os.sched_setaffinity(0, processors)
    return {"cpu_us": used / 1e3 / requests, "requests_per_s": requests / seconds}


# The comparison

HEAD = ["of plain, by rounds", "requests a second"]


def ratio(its: Sequence[lib.Measured], others: Sequence[lib.Measured]) -> float:
    """The median of the ratios within each round."""
    median: float = statistics.median(
        it["cpu_us"] / other["cpu_us"] for it, other in zip(its, others, strict=True)
    )
    return median


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    for name, of_setup in data["setups"].items():
        rows = [
            tables.Row(
                contender,
                tables.number(rounds, "cpu_us"),
                [
                    f"{ratio(rounds, of_setup[PLAIN]):.2f}",
                    f"{tables.number(rounds, 'requests_per_s').median:,.0f}",
                ],
            )
            for contender, rounds in of_setup.items()
        ]
        yield tables.Group(name, "microseconds of CPU per request", rows, HEAD, digits=2)


def version(program: str) -> str:
    option = {"memcached": "-V"}.get(program, "-v")
    done = subprocess.run([found(program) or program, option], capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).splitlines()[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description="CPU per request of unmodified servers, plain and under run."
    )
    tables.add_arguments(parser, rounds=5)
    parser.add_argument("--setup", action="append", choices=SETUPS, help="only this one (can be repeated)")
    parser.add_argument("--seconds", type=float, default=ROUND_S, help="of one contender's round")
    parser.add_argument("--binary", type=Path, help="our command (default: build it)")
    parser.add_argument("--library", type=Path, help="its library (default: build it)")
    args = tables.parse(parser)
    setups = [name for name in args.setup or SETUPS if found(SETUPS[name].program)]
    for name in set(args.setup or SETUPS) - set(setups):
        lib.tell(f"{name} is left out: it is not installed")
    if not setups:
        sys.exit("none of the servers is installed")
    if args.smoke:
        args.seconds = 0.1
    elif args.minutes:
        round_s = (args.seconds + 1.5) * len(setups) * len(CONTENDERS)
        args.rounds = max(min(args.rounds, int(args.minutes * 60 / round_s)), 1)
    binary = args.binary or servers_lib.cargo_build(*servers_lib.COMMAND)
    library = args.library if args.binary else servers_lib.cargo_build(*servers_lib.PRELOAD)
    with tempfile.TemporaryDirectory() as folder:
        servers_lib.build(Path(folder))
        programs = Programs(str(binary.absolute()), library and library.absolute(), Path(folder))
        names = dict.fromkeys(SETUPS[name].program for name in setups)
        environment = {**lib.environment(Path(folder)), **{name: version(name) for name in names}}

        def one(setup: str, name: str) -> lib.Measured:
            return measure(programs, name, SETUPS[setup], args.seconds)

        by_name = lib.by_setup(setups, list(CONTENDERS), args.rounds, one)
    data = {"environment": environment, "setups": by_name}
    summaries.finish("servers_programs", data, groups(data), args)


if __name__ == "__main__":
    main()
