"""The native binary alone: `proactor run` loads the library that is embedded in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from capabilities import needs
from redis_helpers import Client
from run_helpers import free_port, program, server

pytestmark = needs("io_uring", "native binary")

# A child of a shell says which library it has.
SHOW = "grep -om1 '[^ ]*libproactor_preload.*' /proc/self/maps"


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    alone = tmp_path / "alone"
    alone.mkdir()
    return Path(shutil.copy(os.environ["PROACTOR_NATIVE"], alone))


def run(
    binary: Path, *args: str, env: dict[str, str] | None = None, before: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*(before or []), str(binary), "run", *args],
        env=env or {},
        cwd=binary.parent if binary.is_file() else None,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def library(done: subprocess.CompletedProcess[str]) -> Path:
    assert (done.returncode, done.stderr) == (0, "")
    return Path(done.stdout.strip())


def test_a_server(binary: Path, tmp_path: Path) -> None:
    port = free_port()
    stats = tmp_path / "stats"
    command = [str(binary), "run", "--strict", f"--stats={stats}", "--", program("redis-server")]
    command += ["--port", str(port), "--save", ""]
    env = {"HOME": str(tmp_path)}
    with server(command, port, env=env, cwd=binary.parent), Client(port) as client:
        assert client("SET", "key", "value") == b"OK"
        assert client("GET", "key") == b"value"
    assert '"sockets":0,' not in stats.read_text()
    assert [entry.name for entry in binary.parent.iterdir()] == ["proactor"]


def test_the_file_is_private_and_used_again(binary: Path, tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    found = library(run(binary, "--strict", "sh", "-c", SHOW, env=env))
    assert found.parent == tmp_path / "proactor"
    before = found.stat()
    assert before.st_mode & 0o222 == 0
    assert found.parent.stat().st_mode & 0o022 == 0
    assert library(run(binary, "--strict", "sh", "-c", SHOW, env=env)) == found
    assert found.stat().st_ino == before.st_ino


def test_a_file_that_was_changed_is_not_used(binary: Path, tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    found = library(run(binary, "--strict", "sh", "-c", SHOW, env=env))
    right = found.read_bytes()
    found.chmod(0o755)
    found.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    assert library(run(binary, "--strict", "sh", "-c", SHOW, env=env)) == found
    assert found.read_bytes() == right
    found.parent.chmod(0o777)
    assert found not in library(run(binary, "--strict", "sh", "-c", SHOW, env=env)).parents


def test_the_option_and_the_variable_come_first(binary: Path, tmp_path: Path) -> None:
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    found = library(run(binary, "--strict", "sh", "-c", SHOW, env=env))
    other = Path(shutil.copy(found, tmp_path / "libproactor_preload.so"))
    assert library(run(binary, f"--library={other}", "sh", "-c", SHOW, env=env)) == other
    assert library(run(binary, "sh", "-c", SHOW, env={**env, "PROACTOR_PRELOAD": str(other)})) == other


@needs("root", "tmpfs mount")
@pytest.mark.parametrize("options", ["noexec", "ro"])
def test_where_no_directory_will_do(binary: Path, options: str) -> None:
    mounts = "".join(
        f"mount -t tmpfs -o {options} tmpfs {place} && "
        for place in ("/var/cache", "/var/tmp", "/dev/shm", "/tmp")
    )
    elsewhere = f'mount --bind {binary.parent} /mnt && cd /mnt && {mounts} exec "$@"'
    # A child that closes all descriptors before it is started, which subprocess does.
    child = f"import subprocess; print(subprocess.check_output(['sh', '-c', {SHOW!r}], text=True))"
    for command in (["sh", "-c", SHOW], [sys.executable, "-c", child]):
        done = run(
            Path("/mnt/proactor"),
            "--strict",
            *command,
            env={"HOME": "/tmp/none"},
            before=["unshare", "-m", "sh", "-c", elsewhere, "sh"],
        )
        assert library(done) == Path("/memfd:libproactor_preload.so (deleted)")
