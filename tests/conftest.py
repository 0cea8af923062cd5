"""Fixtures for every test, the check for leaks, and the rule for skips (tests/capabilities.py)."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import signal
import time
from collections.abc import Callable, Coroutine, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from capabilities import require, wrong_skip

# A shell starts what goes on in the background with it ignored; so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

T = TypeVar("T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]

# NumPy's linear algebra would start threads at import, inside whichever test imports it first.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# In CI a skip is a failure unless what the test needs is truly not there.
STRICT = os.environ.get("PROACTOR_CI") == "1"


def _let_idle_aio_threads_end() -> None:
    """The C library's POSIX AIO threads wait a second for more work, as do then all tests that use them.

    glibc's `aio_init` takes another time, of which 0 would be its default; less than none ends them at once.
    """

    class AioInit(ctypes.Structure):
        _fields_ = tuple(
            (f"aio_{name}", ctypes.c_int)
            for name in ("threads", "num", "locks", "usedba", "debug", "numusers", "idle_time", "reserved")
        )

    aio_init = getattr(ctypes.CDLL(None), "aio_init", None)
    if aio_init is not None:
        # The first two are glibc's own.
        aio_init(ctypes.byref(AioInit(aio_threads=20, aio_num=64, aio_idle_time=-1)))


_let_idle_aio_threads_end()

# The kernel takes a ring's polling thread down, and we an idle pool's threads, a moment after the last use.
LEAK_GRACE_S = 5.0

BACKENDS = ["io_uring", "linux_aio", "posix_aio", "threads"]
KERNEL_BACKENDS = {"io_uring", "linux_aio"}


# Skips


_skips: list[tuple[str, str]] = []


def _note_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _skips.append((report.nodeid, text.removeprefix("Skipped: ")))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note_skip(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note_skip(report)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        require(*marker.args)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    passed = session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    if STRICT and passed and any(wrong_skip(text) for _, text in _skips):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _skips:
        return
    terminalreporter.section("skipped")
    for test, text in _skips:
        terminalreporter.line(f"{test}: {text}")
        wrong = wrong_skip(text) if STRICT else None
        if wrong:
            terminalreporter.line(f"  wrong: {wrong}", red=True)


# Leaks


def pytest_collection_finish(session: pytest.Session) -> None:
    _collect_and_freeze()


def _collect_and_freeze() -> None:
    """What is there now need not be looked through again: with all that pytest keeps it takes 0.02 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def no_circles() -> Iterator[None]:
    """What a module's tests left in circles complains before the next begins: of not being awaited, say."""
    yield
    _collect_and_freeze()


def _descriptors() -> dict[int, str]:
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the listing's own descriptor, closed by now
    return found


def _threads() -> dict[int, str]:
    """All of the process's threads, with those Python knows nothing of."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            # The kernel's own: one such worker stays until its task ends, whatever rings there were.
            if not name.startswith("iou-wrk"):
                found[int(task.name)] = name
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test, the descriptors and threads of before: else the test fails."""
    if request.node.get_closest_marker("leaks"):
        yield
        return
    descriptors, threads = _descriptors(), _threads()
    yield
    if request.node.get_closest_marker("filterwarnings"):
        # What it may complain of is its own.
        gc.collect()
    deadline = time.monotonic() + LEAK_GRACE_S
    for attempt in count():
        leaked_fds = {fd: what for fd, what in _descriptors().items() if descriptors.get(fd) != what}
        leaked_threads = {task: name for task, name in _threads().items() if task not in threads}
        if not leaked_fds and not leaked_threads:
            return
        if time.monotonic() > deadline:
            pytest.fail(f"left behind: descriptors {leaked_fds}, threads {leaked_threads}")
        if attempt % 20 == 0:
            # A circle may hold them. Again, since a thread may have held the loop a moment ago.
            gc.collect()
        else:
            time.sleep(0.01)


# Backends and event loops


@pytest.fixture(params=BACKENDS)
def engine(request: pytest.FixtureRequest) -> str:
    """Each backend's name in turn, where the kernel has what it stands on."""
    name: str = request.param
    if name in KERNEL_BACKENDS:
        require(name)
    return name


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--caches",
        choices=["keep", "drop"],
        help="run only tests that keep the kernel's caches, or only those that drop them",
    )


def _is_twice(item: pytest.Item) -> bool:
    """POSIX AIO runs on one event loop only.

    The C library's threads stay for a second after each test that uses it, and no engine knows of loops.
    """
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    return (parameters.get("engine"), parameters.get("event_loop_factory")) == ("posix_aio", "uvloop")


def _drops_caches(item: pytest.Item) -> bool:
    return any("drop caches" in marker.args for marker in item.iter_markers("needs"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    caches = config.getoption("caches")

    def is_selected(item: pytest.Item) -> bool:
        return not _is_twice(item) and (caches is None or _drops_caches(item) == (caches == "drop"))

    left_out = [item for item in items if not is_selected(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if is_selected(item)]


@pytest.fixture(scope="session")
def libuv_started() -> None:
    """libuv opens a pipe with its first loop and keeps it for good: no test's leak."""
    try:
        import uvloop
    except ImportError:
        return
    uvloop.new_event_loop().close()


@pytest.fixture(params=["asyncio", "uvloop"])
def event_loop_factory(request: pytest.FixtureRequest, libuv_started: None) -> LoopFactory:
    """The standard library's event loop and uvloop, in turn."""
    if request.param == "asyncio":
        return asyncio.new_event_loop
    require("uvloop")
    import uvloop

    return uvloop.new_event_loop


class Run(Protocol):
    def __call__(self, coro: Coroutine[Any, Any, T]) -> T: ...


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """One of the standard library's event loops for a whole module: for tests of many examples."""
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture
def run(event_loop_factory: LoopFactory) -> Run:
    """`run(coro)`: like `asyncio.run`, on each event loop."""

    def run_on_new_loop(coro: Coroutine[Any, Any, T]) -> T:
        loop = event_loop_factory()
        try:
            asyncio.set_event_loop(loop)
            return loop.run_until_complete(coro)
        finally:
            _close(loop)

    return run_on_new_loop


def _close(loop: asyncio.AbstractEventLoop) -> None:
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        asyncio.set_event_loop(None)
        loop.close()


# Files


@pytest.fixture
def fd(path: Path) -> Iterator[int]:
    """The suite's own `path`, open for reading and writing."""
    fd = os.open(path, os.O_RDWR)
    yield fd
    os.close(fd)


@pytest.fixture
def direct_file(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """A file of two pages, and a descriptor that reads and writes it without the cache (O_DIRECT)."""
    require("O_DIRECT")
    path = tmp_path / "direct"
    path.write_bytes(os.urandom(8192))
    fd = os.open(path, os.O_RDWR | os.O_DIRECT)
    yield path, fd
    os.close(fd)


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    """The reader's and the writer's end of a pipe."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)
