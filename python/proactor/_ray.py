"""Shards of a copy as tasks of a Ray cluster: what the command's `--ray` needs, and nothing else.

Every machine of the cluster must have this package, and the source and the target under the same paths.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from importlib import import_module
from typing import Any

from proactor._native import Copying

# Of one shard: for workers that die, and for a machine that cannot reach the files.
RETRIES = 3

CONNECT_TIMEOUT_S = 10


def run_shard(plan: str, shard: int) -> None:
    """What a task does. Its report is on the shared file system."""
    Copying.shard(plan, shard).run()


class Tasks:
    """Tasks of one plan, at most one plan."""

    def __init__(self, address: str, jobs: int) -> None:
        self._jobs = jobs
        self._tasks: dict[Any, int] = {}
        with contextlib.ExitStack() as streams:
            # What Ray has to say goes to both of them, also in the middle of the command's lines.
            nowhere = streams.enter_context(open(os.devnull, "w"))
            streams.enter_context(contextlib.redirect_stdout(nowhere))
            streams.enter_context(contextlib.redirect_stderr(nowhere))
            self._ray = _connected(address)
            self._streams = streams.pop_all()
        # How many run at a time, as the cluster is now: a task is on one machine.
        cpus = [int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"]]
        self.workers = sum(each // jobs for each in cpus)

    def start(self, plan: str, shards: list[int]) -> None:
        task = self._ray.remote(num_cpus=self._jobs, max_retries=RETRIES, retry_exceptions=True)(run_shard)
        self._tasks = {task.remote(plan, shard): shard for shard in shards}

    def next(self, timeout_s: float) -> tuple[int, str | None] | None:
        """A shard that has ended, and why it failed for good."""
        done, _ = self._ray.wait(list(self._tasks), num_returns=1, timeout=timeout_s)
        if not done:
            return None
        shard = self._tasks.pop(done[0])
        try:
            self._ray.get(done[0])
        except self._ray.exceptions.RayTaskError as error:
            return shard, str(error.cause)
        except self._ray.exceptions.RayError as error:
            return shard, str(error) or type(error).__name__
        return shard, None

    def cancel(self) -> None:
        """Ends the tasks' workers: a shard that was ended goes on later."""
        for task in self._tasks:
            self._ray.cancel(task, force=True)

    def close(self) -> None:
        self._ray.shutdown()
        self._streams.close()


def _connected(address: str) -> Any:
    """Ray, connected."""
    try:
        # Not by a statement, for type checkers where it is not installed; they would be slow where it is.
        ray: Any = import_module("ray")
    except ImportError as error:
        raise RuntimeError("--ray needs Ray: pip install 'proactor[ray]'") from error
    _reach(address)
    # Ray has a handler of its own, which would raise SystemExit in here.
    before = signal.getsignal(signal.SIGTERM)
    more = {"include_dashboard": False} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="ERROR", **more)
    except (ConnectionError, OSError, ValueError, RuntimeError) as error:
        raise RuntimeError(f"cannot reach a Ray cluster at {address}: {error}") from error
    finally:
        signal.signal(signal.SIGTERM, before)
    return ray


def _reach(address: str) -> None:
    """Raises if nobody listens there: Ray would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise RuntimeError(f"cannot reach a Ray cluster at {address}: {error.strerror or error}") from error
