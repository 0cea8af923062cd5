"""A model, not a measurement, of the effect of kernel workers on 4 to 32 cores, from costs measured here.

Measured, per echo of 512 B, in microseconds of CPU: the user part and the kernel's part of our server on a
ring with 25 connections, all of an epoll server in C, and one sleep and wake-up, which is the extra cost of
an echo with a single connection.

The model: with a kernel worker (SQPOLL) the kernel's part, copies included, moves to the worker. User
threads do the rest, and each batch of a worker wakes one of them. So the rate is the smaller of `workers /
kernel part` and `user threads / (user part + application + share of the wake-ups)`. Nothing becomes slower
with more cores: the model has no locks, no shared caches and no network, and the client's cores are not
counted. FastIO's column is published (25 connections, a 32-core Arm machine); its retry thread is one more
busy thread.

    python comparisons/servers_model.py --save
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import lib
import servers_lib
import servers_live
import summaries
import tables

CONNECTIONS = 25
# Requests a second, by the number of kernel workers; 0: epoll.
FASTIO = {0: 82_896, 1: 82_802, 2: 161_260, 3: 257_491, 4: 301_168, 5: 393_052}
CORES = (4, 8, 16, 32)
# Microseconds that the application computes for a request.
APPLICATION = (0, 2, 5, 10, 20)
ROUND_S = 2.0
# Of CPU in one round.
LEAST_S = 0.001


@dataclass(frozen=True)
class Costs:
    """Microseconds per request."""

    user: float
    kernel: float
    wake: float
    epoll: float

    @classmethod
    def of(cls, rounds: list[lib.Measured]) -> Costs:
        def median(key: str) -> float:
            found: float = statistics.median(one[key] for one in rounds)
            return found

        every = median("ring_user_us") + median("ring_kernel_us")
        return cls(
            # The kernel counts it in ticks: a short round may have had none.
            max(median("ring_user_us"), 0.01),
            median("ring_kernel_us"),
            max(median("alone_us") - every, 0.0),
            median("epoll_us"),
        )

    def rate(self, users: int, workers: int, application: float = 0.0) -> float:
        """Requests a second with kernel workers."""
        wakes = self.wake * workers / CONNECTIONS
        return 1e6 * min(workers / self.kernel, users / (self.user + application + wakes))

    def of_epoll(self, threads: int, application: float = 0.0) -> float:
        return 1e6 * threads / (self.epoll + application)

    def workers(self, application: float) -> int:
        """How many kernel workers one user thread can use: with more, the rate is no higher."""
        rates = [self.rate(1, n, application) for n in range(1, 100)]
        return 1 + max(range(len(rates)), key=rates.__getitem__)

    def split(self, cores: int, application: float) -> int:
        """The best number of user threads on a number of cores, where the others are kernel workers."""
        return max(range(1, cores), key=lambda users: self.rate(users, cores - users, application))


# Measured


def measure(programs: servers_live.Programs, place: servers_live.Place, seconds: float) -> lib.Measured:
    """One round: the ring with 25 connections and with one, and epoll."""

    def used(start: servers_live.Start, connections: int) -> tuple[float, float]:
        cell = servers_live.load(programs, place, start, connections, seconds)
        if cell["failed"]:
            raise RuntimeError(cell["failed"])
        (found,) = cell["rounds"]
        scale = 1e6 / found["all"]["ios"]
        # A short run may be within one tick of the kernel's count.
        user_s, system_s = (max(found["used"][key], LEAST_S) for key in ("user_s", "system_s"))
        return user_s * scale, system_s * scale

    user, kernel = used(servers_live.ours(), CONNECTIONS)
    return {
        "ring_user_us": user,
        "ring_kernel_us": kernel,
        "alone_us": sum(used(servers_live.ours(), 1)),
        "epoll_us": sum(used(servers_live.c("epoll"), CONNECTIONS)),
    }


# Output


def exact(value: float) -> tables.Summary:
    return tables.Summary(value, value, value, 0.0, 1)


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    costs = Costs.of(data["rounds"])
    unit = "requests a second by the model"
    rows = [tables.Row("epoll, 1 thread", exact(costs.of_epoll(1)), ["1", f"{FASTIO[0]:,}"], is_floor=True)]
    for workers in range(1, 6):
        name = f"1 user thread, {workers} kernel worker{'s' * (workers > 1)}"
        rows.append(
            tables.Row(name, exact(costs.rate(1, workers)), [str(workers + 1), f"{FASTIO[workers]:,}"])
        )
    head = ["busy cores", "FastIO, published"]
    yield tables.Group("Model: one user thread", unit, rows, head, more_is_better=True)
    for cores in CORES:
        users = costs.split(cores, 0)
        name = f"{users} user threads, {cores - users} kernel workers"
        rows = [
            tables.Row(f"epoll, {cores} threads", exact(costs.of_epoll(cores))),
            tables.Row(name, exact(costs.rate(users, cores - users))),
        ]
        yield tables.Group(f"Model: {cores} cores", unit, rows, more_is_better=True)


def summary(data: lib.Measured) -> str:
    """The costs, and how many kernel workers one server thread needs, by what the application computes."""
    costs = Costs.of(data["rounds"])
    text = (
        f"Measured, microseconds per echo: user part {costs.user:.2f}, kernel's part {costs.kernel:.2f}, "
        f"a wake-up {costs.wake:.2f}, epoll in C {costs.epoll:.2f}."
    )
    return f"{text} All else in this section is the model.\n\n{sizing(costs)}"


def sizing(costs: Costs) -> str:
    rows = []
    for application in APPLICATION:
        workers = costs.workers(application)
        cores = 1 + workers
        rate, epoll = costs.rate(1, workers, application), costs.of_epoll(1, application)
        rows.append(
            [
                f"{application} us",
                1,
                workers,
                cores,
                f"{rate:,.0f}",
                f"{rate / epoll:.1f}",
                f"{rate / costs.of_epoll(cores, application):.2f}",
            ]
        )
    head = ["application, per request", "server threads", "kernel workers", "cores", "requests a second"]
    return tables.table([*head, "of 1 epoll thread", "of as many epoll threads"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="A model of kernel workers, from costs measured here.")
    tables.add_arguments(parser, rounds=9)
    parser.add_argument("--seconds", type=float, default=ROUND_S, help="of one server's round")
    parser.add_argument("--binary", type=Path, help="our command (default: build it)")
    args = tables.parse(parser)
    if args.smoke:
        args.seconds = 0.1
    elif args.minutes:
        args.rounds = max(min(args.rounds, math.floor(args.minutes * 60 / (3 * (args.seconds + 0.7)))), 1)
    binary = args.binary or servers_lib.cargo_build(*servers_lib.COMMAND)
    place = servers_live.Place.of(sorted(os.sched_getaffinity(0)), 1)
    with tempfile.TemporaryDirectory() as folder:
        servers_lib.build(Path(folder))
        programs = servers_live.Programs(Path(folder), (str(binary),), {})
        environment = lib.environment(Path(folder))
        found = lib.in_rounds(["costs"], args.rounds, lambda _: measure(programs, place, args.seconds))
    data: lib.Measured = {"environment": environment, "rounds": found["costs"]}
    print(summary(data), end="\n\n")
    summaries.finish("servers_model", data, groups(data), args, summary(data))


if __name__ == "__main__":
    main()
