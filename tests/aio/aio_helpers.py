"""What the tests of `proactor.aio` share beside fixtures."""

from __future__ import annotations

from proactor import aio

CONTENT = b"hello world"


def run(context: aio.Context, *ops: aio.Op) -> list[aio.Event]:
    """Submit and wait for all; the events in the order of the ops."""
    assert context.submit(*ops) == len(ops)
    events = {event.op: event for event in context.wait(len(ops))}
    return [events[op] for op in ops]


def run_one(context: aio.Context, op: aio.Op) -> aio.Event:
    (event,) = run(context, op)
    return event
