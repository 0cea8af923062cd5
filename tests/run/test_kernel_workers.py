"""`proactor run --kernel-workers`: the kernel's threads receive and send, and the program sees the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from capabilities import needs
from echo_clients import echo_client, run_clients
from redis_helpers import Client, set_and_get, take_turns
from run_helpers import HERE, LIBRARY, RUN, RUN_ALONE, compiled, free_port, program, server, settle

pytestmark = needs("io_uring")

WORKER = "kernel-workers=1;user-spin-ns=50000"


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("cases", tmp_path_factory.mktemp("cases"))


@pytest.fixture(scope="module")
def plain(cases: Path) -> list[str]:
    return output_of(cases, None)


def output_of(cases: Path, options: str | None) -> list[str]:
    """What the cases of epoll print, by options as the library takes them."""
    environment = dict(os.environ)
    if options is not None:
        environment |= {"LD_PRELOAD": str(LIBRARY), "PROACTOR_RUN": options}
    done = subprocess.run([str(cases)], env=environment, capture_output=True, timeout=200, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout.decode(errors="replace").splitlines()


@pytest.mark.parametrize(
    "options", ["sqpoll-idle-ms=1000", "sqpoll-idle-ms=1;pool=1", "sqpoll-idle-ms=1000;per-socket=4096"]
)
def test_cases_in_step(cases: Path, plain: list[str], options: str) -> None:
    # The cases talk to themselves: they print the same if the worker is waited for before each call.
    assert output_of(cases, f"{WORKER};{options};in-step") == plain


def test_cases_at_the_workers_pace(cases: Path, plain: list[str]) -> None:
    # What has arrived may be seen a moment later. So the text may differ, and nothing else.
    found = output_of(cases, f"{WORKER};sqpoll-idle-ms=100")
    assert [line.split(":")[0] for line in found] == [line.split(":")[0] for line in plain]


def counted(stats: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads(stats.read_text().splitlines()[-1])
    return found


def thread_names(pid: int) -> list[str]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [(task / "comm").read_text().strip() for task in tasks]


@needs("redis-server")
def test_redis(tmp_path: Path) -> None:
    port = free_port()
    stats = tmp_path / "stats"
    config = tmp_path / "run.toml"
    config.write_text(f"kernel-workers = 2\nonly = [{port + 1}]\nstrict = true\nsqpoll-idle = 1\n")
    # Options of the command line count.
    command = [*RUN, f"--config={config}", "--kernel-workers=1", f"--only={port}", f"--stats={stats}", "--"]
    command += [program("redis-server"), "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    with server(command, port) as child, Client(port) as first:
        set_and_get(first, (0, 1, 4095, 4096, 4097, 65_536, 5_000_003))
        assert any(name.startswith("iou-sqp-") for name in thread_names(child.pid))
        clients = [Client(port) for _ in range(60)]
        take_turns(clients, 10)
        # A child that saves has no worker, and takes no byte of a connection.
        assert first("BGSAVE") == b"Background saving started"
        assert first("GET", "all") == b"600"
        for client in clients:
            client.__exit__()
    found = counted(stats)
    assert (found["sockets"], found["kernel_workers"]) == (62, 1)
    assert isinstance(found["queued_sends"], int)
    assert found["queued_sends"] > 1000


@needs("memcached")
def test_threads_share_workers(tmp_path: Path) -> None:
    port = free_port()
    stats = tmp_path / "stats"
    command = [*RUN, "--strict", "--kernel-workers=2", f"--stats={stats}", "--", program("memcached")]
    command += ["-p", str(port), "-U", "0", "-t", "4", "-l", "127.0.0.1", "-u", "nobody"]

    def client(number: int) -> None:
        with Client(port) as one:
            for turn in range(50):
                value = f"{number} {turn} ".encode() * (turn * 40 + 1)
                one.socket.sendall(
                    b"set key%d 0 0 %d\r\n%s\r\nget key%d\r\n" % (number, len(value), value, number)
                )
                assert one.file.readline() == b"STORED\r\n"
                assert one.file.readline() == b"VALUE key%d 0 %d\r\n" % (number, len(value))
                assert one.file.read(len(value) + 7) == value + b"\r\nEND\r\n"
                done.append(number)

    done: list[int] = []
    with server(command, port):
        threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(done) == 400
    assert counted(stats)["kernel_workers"] == 2


@pytest.mark.parametrize("options", [[], ["--pool=1", "--per-socket=4096"]], ids=["", "little memory"])
def test_echo(options: list[str], tmp_path: Path) -> None:
    port = free_port()
    said = tmp_path / "said"
    command = [*RUN, "--strict", "--kernel-workers=1", "--sqpoll-idle=1", *options, "--", sys.executable]
    with (
        said.open("wb") as out,
        server([*command, str(HERE / "echo_server.py"), str(port), "asyncio"], port, stdout=out) as child,
    ):
        run_clients(echo_client, port, 120)
    assert child.returncode == 0
    assert said.read_text() == "0\n"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--kernel-workers=0"], "from 1 to 1024"),
        (["--kernel-cpus=0"], "--kernel-workers"),
        (["--user-spin=5"], "--kernel-workers"),
        (["--kernel-workers=1", "--kernel-cpus=16000"], "processor 16000 is offline, or not there"),
        (["--kernel-workers=2", "--kernel-cpus=0"], "2 kernel workers need 2 processors"),
        (["--iowq-cpus=16000"], "--iowq-cpus: processor 16000"),
        (["--config=/no/such/file"], "it cannot be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_misuse(options: list[str], why: str) -> None:
    command = [*RUN_ALONE, *options, "true"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert why in done.stderr


def test_a_wrong_line_of_a_file(tmp_path: Path) -> None:
    config = tmp_path / "run.toml"
    for text, why in [
        ("pool = 64\nworkers = 2\n", 'run.toml:2: no option is called "workers"'),
        ("pool = 3\n", "run.toml:1: "),
        ('command = "x"\n', 'no option is called "command"'),
    ]:
        config.write_text(text)
        command = [*RUN, "--config", str(config), "true"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2
        assert why in done.stderr


@needs("two CPUs")
def test_bounds_of_threads_for_work_that_blocks() -> None:
    command = [*RUN, "--strict", "--iowq=2", "--iowq-cpus=0-1", "--", sys.executable, "-c", LOOP]
    assert subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout == "b'x'\n"


@pytest.mark.parametrize("waits", ["poll.poll(0.3)", "(poll.poll(0) or time.sleep(0.1))"])
def test_waits_that_time_out_let_the_worker_sleep(waits: str) -> None:
    code = LOOP + WAITS.format(waits)
    command = [*RUN, "--strict", "--kernel-workers=1", "--", sys.executable, "-c", code]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "b'x'\n"
        assert any(name.startswith("iou-sqp-") for name in thread_names(child.pid))
        # It polls for a second after its last work, and the program waits for less.
        settle(child.pid)
    finally:
        child.kill()
        child.communicate()


LOOP = """
import select, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname())
server, _ = listener.accept()
server.setblocking(False)
poll = select.epoll()
poll.register(server, select.EPOLLIN)
client.sendall(b"x")
poll.poll(5)
print(server.recv(10))
"""

WAITS = """
import time
sys.stdout.flush()
while not {}:
    pass
"""
