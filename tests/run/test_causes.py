"""Why connections and sets are handed back: each cause is seen, printed by --explain and in the guide."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from capabilities import needs
from run_helpers import DENIED, HERE, LIBRARY, compiled

ROOT = HERE.parent.parent
# Each cause, and a case of tests/run/cases that has it. The two that have none have a test of their own.
CASES = {
    "no ring could be made": None,
    "a second thread waits on the set": "second_thread",
    "another thread uses a socket of the set": "reader_in_another_thread",
    "the set is in another set, or is polled": "nested_with_bytes",
    "the set's descriptor is sent to another process": "set_sent_to_itself",
    "the socket's descriptor is duplicated": "duplicated",
    "the socket's descriptor is sent to another process": "sent_to_another_process",
    "the socket is made blocking, or signals input": "signals_input",
    "the process forks": "child_ends_later",
    "splice or sendfile takes from the socket": "spliced",
    "TLS in the kernel": None,
    "urgent data": "urgent_by_signal",
    "fdopen on the socket": "stream_of_both",
    "connect on the socket": "disconnected",
    "an option that changes what is received": "urgent_inline",
    "poll or select on the socket": "selected_all",
    "the socket is in two sets": "two_sets_after_a_part",
    "EPOLLEXCLUSIVE, EPOLLWAKEUP or EPOLLPRI": "exclusive_from_the_start",
    "the ring cannot be used any more": "sandboxed_with_bytes",
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled("cases", tmp_path_factory.mktemp("cases"))


def explained(command: list[str], *behind: Path) -> subprocess.CompletedProcess[str]:
    library = ":".join(map(str, [LIBRARY, *behind]))
    environment = {**os.environ, "LD_PRELOAD": library, "PROACTOR_RUN": "explain"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment, errors="replace"
    )


def count_of(cause: str, said: str) -> int:
    """How often it was, in all processes together."""
    line = f"^proactor run: handed back to epoll ([0-9]+) times: {re.escape(cause)}$"
    return sum(map(int, re.findall(line, said, re.M)))


def test_all_causes_are_here_and_in_the_guide() -> None:
    source = (ROOT / "crates/preload/src/report.rs").read_text()
    assert set(re.findall(r'\(Cause::\w+, "(.*)"\),', source)) == set(CASES)
    guide = (ROOT / "docs/run.md").read_text()
    for cause in CASES:
        assert f"| {cause} |" in guide, cause


@needs("io_uring", "seccomp filter")
@pytest.mark.parametrize(("cause", "case"), [item for item in CASES.items() if item[1]])
def test_cause(cases: Path, cause: str, case: str) -> None:
    assert count_of(cause, explained([str(cases), case]).stderr) > 0


@needs("seccomp filter")
def test_no_ring(cases: Path) -> None:
    said = explained([*DENIED, str(cases), "level"]).stderr
    assert count_of("no ring could be made", said) == 1


@needs("io_uring")
def test_kernel_tls(tmp_path: Path) -> None:
    program = compiled("kernel_tls", tmp_path, sources=["kernel_tls/program.c", "cases/common.c"])
    substitute = tmp_path / "substitute.so"
    source = str(HERE / "kernel_tls/substitute.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(substitute), source], check=True, timeout=60)
    for case in ("before_the_set", "in_the_set", "after_a_batch"):
        environment = {**os.environ, "LD_PRELOAD": str(substitute)}
        plain = subprocess.run(
            [str(program), case], capture_output=True, text=True, timeout=60, check=True, env=environment
        )
        run = explained([str(program), case], substitute)
        assert run.stdout == plain.stdout
        assert count_of("TLS in the kernel", run.stderr) == (case != "before_the_set")
    # Records of which a part has been received cannot be given back to the kernel.
    assert explained([str(program), "with_unread_bytes"], substitute).stdout.splitlines() == [
        "with_unread_bytes: in 1 1=IN",
        "with_unread_bytes: TLS -1 Protocol not available",
        "with_unread_bytes: part 3 'rec'",
        "with_unread_bytes: TLS -1 Protocol not available",
        "with_unread_bytes: rest 3 'ord'",
        "the kernel does TLS from now on",
        "with_unread_bytes: TLS 0",
        "with_unread_bytes: in 1 1=IN",
        "with_unread_bytes: kernel 6 'record'",
    ]


@needs("io_uring")
@pytest.mark.parametrize(
    "case", ["messages_received", "low_water", "set_by_two_names", "moved_with_bytes", "flags_changed"]
)
def test_no_cause(cases: Path, case: str) -> None:
    said = explained([str(cases), case]).stderr
    assert "1 sockets on a ring" in said or "2 sockets on a ring" in said
    assert "handed back" not in said
