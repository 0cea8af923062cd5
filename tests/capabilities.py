"""What a test may need of the machine, by name, with a probe that says whether it is there.

A test skips through this file only: `@needs("root", "loop device")` on a test, or `require("uvloop")` in one.
Needs nothing but the standard library, so that `.ci/run` can ask before anything is installed:
`python tests/capabilities.py` prints each capability, `--available` the available ones with commas between.

A probe asks the kernel, never proactor: a bug of ours must fail a test, not skip it.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import importlib.util
import mmap
import os
import platform
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_libc = ctypes.CDLL(None, use_errno=True)

# Numbers of system calls that glibc has no wrapper for. Those from 424 on are the same everywhere.
_IO_URING_SETUP = 425
_IO_SETUP, _IO_DESTROY = {"x86_64": (206, 207), "aarch64": (0, 1)}.get(platform.machine(), (-1, -1))
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}.get(platform.machine(), -1)

_SECCOMP = {"x86_64": 317, "aarch64": 277}.get(platform.machine(), -1)
_BPF = {"x86_64": 321, "aarch64": 280}.get(platform.machine(), -1)

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_EFAULT = 14


@dataclass(frozen=True)
class Capability:
    """`probe` returns None, or why the capability is missing."""

    probe: Callable[[], str | None]
    # The project's own set-up installs it (requirements/, .ci/run), so in CI it is never rightly missing.
    installed_by_us: bool = False


def _syscall_error(number: int, *args: object) -> tuple[int, str | None]:
    result: int = _libc.syscall(ctypes.c_long(number), *args)
    return result, os.strerror(ctypes.get_errno()) if result < 0 else None


def _command(*args: str) -> str | None:
    """Why a command failed, or None."""
    try:
        done = subprocess.run(args, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return (done.stderr.strip() or f"{args[0]} exited with {done.returncode}").splitlines()[-1]


def _root() -> str | None:
    return None if os.geteuid() == 0 else f"running as user {os.geteuid()}"


def _io_uring() -> str | None:
    params = ctypes.create_string_buffer(120)  # struct io_uring_params
    fd, error = _syscall_error(_IO_URING_SETUP, ctypes.c_uint(2), params)
    if error is None:
        os.close(fd)
    return error and f"io_uring_setup: {error}"


def _linux_aio() -> str | None:
    if _IO_SETUP < 0:
        return f"io_setup's number on {platform.machine()} is not known here"
    context = ctypes.c_ulong(0)
    _, error = _syscall_error(_IO_SETUP, ctypes.c_uint(1), ctypes.byref(context))
    if error is None:
        _syscall_error(_IO_DESTROY, context)
    return error and f"io_setup: {error}"


def _system_call_counters() -> str | None:
    # An automount is not listed before its first use.
    tracefs = mount_point("tracefs") or Path("/sys/kernel/tracing")
    try:
        tracepoint = int((tracefs / "events/raw_syscalls/sys_enter/id").read_text())
    except OSError as error:
        return str(error)
    # struct perf_event_attr: type (a tracepoint's), size, config.
    attr = ctypes.create_string_buffer(struct.pack("IIQ", 2, 64, tracepoint), 64)
    this, any_cpu, no_group, no_flags = (ctypes.c_long(n) for n in (0, -1, -1, 0))
    fd, error_text = _syscall_error(_PERF_EVENT_OPEN, attr, this, any_cpu, no_group, no_flags)
    if error_text is None:
        os.close(fd)
    return error_text and f"perf_event_open: {error_text}"


def _bpf() -> str | None:
    """Built with it, and the kernel lets us."""
    if "bpf" not in os.environ.get("FEATURES", "").split(","):
        return "the build has no feature bpf (make test FEATURES=bpf)"
    if not os.access("/sys/kernel/btf/vmlinux", os.R_OK):
        return "the kernel does not tell its types (/sys/kernel/btf/vmlinux)"
    # BPF_MAP_CREATE: an array of one number.
    attr = ctypes.create_string_buffer(struct.pack("IIII", 2, 4, 8, 1), 72)
    fd, error = _syscall_error(_BPF, ctypes.c_int(0), attr, ctypes.c_uint(72))
    if error is None:
        os.close(fd)
    return error and f"bpf: {error}"


def _socket_ring() -> str | None:
    release = tuple(int(part) for part in re.findall(r"\d+", platform.release())[:2])
    return _io_uring() or (None if release >= (6, 0) else f"Linux {platform.release()}, before 6.0")


def _ipv6() -> str | None:
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError as e:
        return f"binding ::1: {e}"
    return None


def _seccomp() -> str | None:
    # A null program: EFAULT where filters exist, EINVAL where they do not.
    _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, None, 0, 0)
    error = ctypes.get_errno()
    return None if error == _EFAULT else f"prctl(PR_SET_SECCOMP): {os.strerror(error)}"


def _notification() -> str | None:
    sizes = (ctypes.c_uint16 * 3)()
    # seccomp(SECCOMP_GET_NOTIF_SIZES), since Linux 5.0; that a call may go on afterwards, since 5.5.
    _, error = _syscall_error(_SECCOMP, 3, 0, sizes)
    if error is not None:
        return f"seccomp(SECCOMP_GET_NOTIF_SIZES): {error}"
    return None if sizes[0] == 80 else f"notifications have {sizes[0]} bytes"


def _no_labels() -> str | None:
    """Neither SELinux nor Smack gives them."""
    with tempfile.NamedTemporaryFile() as file:
        labels = [name for name in os.listxattr(file.name) if name.startswith("security.")]
    return f"new files have {', '.join(labels)}" if labels else None


def _drop_caches() -> str | None:
    try:
        with open("/proc/sys/vm/drop_caches", "wb"):
            return None
    except OSError as error:
        return str(error)


def _direct_io() -> str | None:
    with tempfile.NamedTemporaryFile() as file, mmap.mmap(-1, mmap.PAGESIZE) as page:
        file.write(bytes(len(page)))
        file.flush()
        try:
            fd = os.open(file.name, os.O_RDONLY | os.O_DIRECT)
        except OSError as error:
            return str(error)
        try:
            os.preadv(fd, [page], 0)
        except OSError as error:
            return f"{file.name}: {error}"
        finally:
            os.close(fd)
    return None


def _block_device() -> str | None:
    is_there = any(entry.is_block_device() for entry in Path("/dev").iterdir())
    return None if is_there else "none in /dev"


def _strace() -> str | None:
    """Installed, and allowed: a container may have no ptrace."""
    return _program("strace") or _command("strace", "-o", os.devnull, "true")


def _mount(*args: str) -> str | None:
    with tempfile.TemporaryDirectory() as place:
        return _command("mount", *args, place) or _command("umount", place)


def _image_mount(file_system: str, size_bytes: int) -> str | None:
    with tempfile.NamedTemporaryFile(suffix=".img") as image:
        os.truncate(image.name, size_bytes)
        return _command(f"mkfs.{file_system}", "-q", image.name) or _mount("-o", "loop", image.name)


def _fuse() -> str | None:
    """The device can be opened, by root or through fusermount3; libfuse is the project's own set-up's."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return str(error)
    return None if os.geteuid() == 0 else _program("fusermount3")


def _overlay() -> str | None:
    # Over an overlay there is none; memory is no overlay.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:
        for name in ("lower", "upper", "work", "merged"):
            os.mkdir(f"{place}/{name}")
        options = f"lowerdir={place}/lower,upperdir={place}/upper,workdir={place}/work"
        merged = f"{place}/merged"
        return _command("mount", "-t", "overlay", "-o", options, "overlay", merged) or _command(
            "umount", merged
        )


def mount_point(kind: str) -> Path | None:
    """Where a file system of this type is mounted, and its root can be seen."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, source = line.partition(" - ")
        _, _, _, root, place, *_ = mount.split(" ")
        # Spaces and the like are octal numbers. A later mount may cover this one.
        path = Path(re.sub(r"\\([0-7]{3})", lambda digits: chr(int(digits[1], 8)), place))
        if source.split(" ")[0] == kind and root == "/" and _has_type(path, kind):
            return path
    return None


_MAGIC = {"cgroup2": 0x63677270, "debugfs": 0x64626720, "tracefs": 0x74726163}


def _has_type(place: Path, kind: str) -> bool:
    statfs = ctypes.create_string_buffer(256)
    if _libc.statfs(os.fsencode(place), statfs) != 0:
        return False
    magic: int = struct.unpack_from("l", statfs)[0]
    return magic == _MAGIC[kind]


def _file_system(kind: str) -> str | None:
    """It is mounted somewhere, or can be."""
    return None if mount_point(kind) else _mount("-t", kind, kind)


def _loop_device() -> str | None:
    return _image_mount("ext4", 1 << 20)


def _xfs() -> str | None:
    return _image_mount("xfs", 300 << 20)  # mkfs.xfs refuses less


def _btrfs_quota() -> str | None:
    """Of the file systems with quotas the one that needs no further kernel option, and no other tools."""
    with tempfile.TemporaryDirectory() as place, tempfile.NamedTemporaryFile(suffix=".img") as image:
        os.truncate(image.name, 128 << 20)
        reason = _command("mkfs.btrfs", "-q", image.name) or _command(
            "mount", "-o", "loop", image.name, place
        )
        return reason or _command("btrfs", "quota", "enable", place) or _command("umount", place)


def _two_cpus() -> str | None:
    cpus = len(os.sched_getaffinity(0))
    return None if cpus >= 2 else f"{cpus} CPU"


def _module(name: str) -> str | None:
    try:
        importlib.import_module(name)
    except ImportError as error:
        return str(error)
    return None


def _installed(name: str) -> str | None:
    """For a module whose import warns or does more."""
    return None if importlib.util.find_spec(name) else f"no module named {name!r}"


def _program(name: str) -> str | None:
    # Debian has some servers where only root looks.
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin"
    return None if shutil.which(name, path=path) else f"no {name} on PATH"


def _native_binary() -> str | None:
    """Named by `.ci/run` when it has built one: one that lies there may be of older sources."""
    return None if os.environ.get("PROACTOR_NATIVE") else "PROACTOR_NATIVE names none (make native)"


def _gnu_cp() -> str | None:
    """The release that the diagnostics are compared with is 9, whose wording differs from older ones."""
    try:
        done = subprocess.run(["cp", "--version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        return str(error)
    is_it = done.stdout.startswith("cp (GNU coreutils) 9.")
    return None if is_it else f"cp is {done.stdout.splitlines()[:1]}"


_IN_DEFAULT_ENVIRONMENT = os.path.basename(sys.prefix) == ".venv"


def _ours_by_default(module: str) -> Capability:
    """A package that the set-up of the default environment installs."""
    return Capability(functools.partial(_installed, module), installed_by_us=_IN_DEFAULT_ENVIRONMENT)


def _network_namespace() -> str | None:
    return _command("unshare", "--net", "ip", "link", "add", "near", "type", "veth", "peer", "far")


CAPABILITIES: dict[str, Capability] = {
    "root": Capability(_root),
    "FUSE": Capability(_fuse),
    "overlay mount": Capability(_overlay),
    "debugfs": Capability(functools.partial(_file_system, "debugfs")),
    "tracefs": Capability(functools.partial(_file_system, "tracefs")),
    "cgroup2": Capability(functools.partial(_file_system, "cgroup2")),
    "io_uring": Capability(_io_uring),
    "io_uring for sockets": Capability(_socket_ring),
    "IPv6": Capability(_ipv6),
    "linux_aio": Capability(_linux_aio),
    "O_DIRECT": Capability(_direct_io),
    "network namespace": Capability(_network_namespace),
    "seccomp filter": Capability(_seccomp),
    "seccomp notification": Capability(_notification),
    "system call counters": Capability(_system_call_counters),
    "bpf": Capability(_bpf),
    "drop caches": Capability(_drop_caches),
    "files without labels": Capability(_no_labels),
    "two CPUs": Capability(_two_cpus),
    "tmpfs mount": Capability(functools.partial(_mount, "-t", "tmpfs", "tmpfs")),
    "block device": Capability(_block_device),
    "loop device": Capability(_loop_device),
    "xfs mount": Capability(_xfs),
    "btrfs quota": Capability(_btrfs_quota),
    "native binary": Capability(_native_binary),
    "GNU cp": Capability(_gnu_cp),
    "fio": Capability(functools.partial(_program, "fio"), installed_by_us=True),
    "strace": Capability(_strace),
    "redis-tools": Capability(functools.partial(_program, "redis-benchmark"), installed_by_us=True),
    "redis-server": Capability(functools.partial(_program, "redis-server"), installed_by_us=True),
    "memcached": Capability(functools.partial(_program, "memcached"), installed_by_us=True),
    "nginx": Capability(functools.partial(_program, "nginx"), installed_by_us=True),
    "haproxy": Capability(functools.partial(_program, "haproxy"), installed_by_us=True),
    "wrk": Capability(functools.partial(_program, "wrk"), installed_by_us=True),
    "curl": Capability(functools.partial(_program, "curl"), installed_by_us=True),
    "openssl": Capability(functools.partial(_program, "openssl"), installed_by_us=True),
    "chromium": Capability(functools.partial(_program, "chromium"), installed_by_us=True),
    "numpy": Capability(functools.partial(_module, "numpy"), installed_by_us=True),
    "linux_aio package": Capability(functools.partial(_installed, "linux_aio"), installed_by_us=True),
    "redis-py": _ours_by_default("redis"),
    "pymemcache": _ours_by_default("pymemcache"),
    "uvicorn": _ours_by_default("uvicorn"),
    "fastapi": _ours_by_default("fastapi"),
    "pandas": _ours_by_default("pandas"),
    "pyarrow": _ours_by_default("pyarrow"),
    "torch": Capability(functools.partial(_module, "torch")),
    "uvloop": Capability(functools.partial(_module, "uvloop"), installed_by_us=True),
    "aiofiles": Capability(functools.partial(_module, "aiofiles"), installed_by_us=True),
    "aiofile": Capability(functools.partial(_module, "aiofile"), installed_by_us=sys.version_info >= (3, 11)),
    "anyio": Capability(functools.partial(_module, "anyio"), installed_by_us=True),
    "caio": Capability(functools.partial(_module, "caio"), installed_by_us=True),
    # Large, so in the default environment only (Makefile).
    "ray": _ours_by_default("ray"),
}


@functools.cache
def missing(name: str) -> str | None:
    """Why the capability is missing, or None: probed once a run."""
    return CAPABILITIES[name].probe()


def needs(*names: str) -> pytest.MarkDecorator:
    """The test runs only where the machine has all of these."""
    import pytest

    unknown = [name for name in names if name not in CAPABILITIES]
    assert not unknown, f"unknown capability {unknown}: add it to {__file__}"
    return pytest.mark.needs(*names)


def require(*names: str) -> None:
    """Skip the running test, or module, unless the machine has all of these."""
    import pytest

    for name in names:
        reason = missing(name)
        if reason is not None:
            pytest.skip(skip_text(name, reason), allow_module_level=True)


def skip_text(name: str, reason: str) -> str:
    return f"needs {name}: {reason}"


def wrong_skip(text: str) -> str | None:
    """Why a skip is wrong where everything that can run must run, or None."""
    name = next((name for name in CAPABILITIES if text.startswith(f"needs {name}: ")), None)
    if name is None:
        return "not made with needs() or require()"
    capability = CAPABILITIES[name]
    if capability.installed_by_us:
        return f"{name} is installed by the project's own set-up"
    if capability.probe() is None:
        return f"{name} is available here"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description="Say what a test may count on here.")
    parser.add_argument("--available", action="store_true", help="only the available ones, comma-separated")
    if parser.parse_args().available:
        print(",".join(name for name in CAPABILITIES if missing(name) is None))
        return
    for name in CAPABILITIES:
        print(f"{name:18} {missing(name) or 'yes'}")


if __name__ == "__main__":
    main()
