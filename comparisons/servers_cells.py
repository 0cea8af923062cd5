"""What `proactor bench net` has found of one server, for the comparisons that start it."""

from __future__ import annotations

import socket
from collections.abc import Callable

import lib

# Each round is twice as long as the one before it, until it has enough.
ATTEMPTS = 5


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port: int = one.getsockname()[1]
        return port


def cell(name: str, seconds: float, load: Callable[[float], lib.Measured]) -> lib.Measured:
    """Run one round, and longer ones while it fails: on a busy machine a short one may have too little."""
    for longer in range(ATTEMPTS):
        found = load(seconds * 2**longer)
        if not found["failed"]:
            return found
    raise RuntimeError(f"{name}: {found['failed']}")


def of_lockstep(found: lib.Measured) -> lib.Measured:
    """CPU time and, where they were counted, system calls of a request."""
    (one,) = found["rounds"]
    measured: lib.Measured = {"cpu_us": one["used"]["threads"][0]["cpu_s"] * 1e6 / one["all"]["ios"]}
    if counted := found["counted"]:
        measured["calls_per_request"] = counted["calls"]["total"] / counted["ios"]
    return measured
