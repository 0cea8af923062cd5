"""memcached's two protocols, and a checker of what a server answers, which knows the values of its keys."""

from __future__ import annotations

import random
import socket
import struct
from dataclasses import dataclass
from typing import BinaryIO, ClassVar, Protocol

MAX_VALUE_BYTES = 1 << 20


@dataclass
class Asked:
    """One command. `value` is what is stored, or the number to add."""

    what: str
    key: bytes
    value: bytes = b""


@dataclass
class Answer:
    """`ok`, or why not: `missing`, `exists`, `too large`, `no number`. A read or a sum has a value."""

    outcome: str
    value: bytes = b""


class Connection(Protocol):
    def send(self, commands: list[Asked]) -> bytes: ...
    def answer(self, asked: Asked) -> Answer: ...


class Wire:
    def __init__(self, sock: socket.socket) -> None:
        self.file: BinaryIO = sock.makefile("rb")

    def exactly(self, size: int) -> bytes:
        got = self.file.read(size)
        assert len(got) == size, "the server ended the connection"
        return got


class Text(Wire):
    """The text protocol: https://docs.memcached.org/protocols/basic/."""

    ANSWERS: ClassVar = {
        b"STORED": "ok",
        b"NOT_STORED": "exists",
        b"DELETED": "ok",
        b"TOUCHED": "ok",
        b"NOT_FOUND": "missing",
        b"SERVER_ERROR object too large for cache": "too large",
        b"CLIENT_ERROR cannot increment or decrement non-numeric value": "no number",
    }

    def send(self, commands: list[Asked]) -> bytes:
        return b"".join(map(self.line, commands))

    def line(self, asked: Asked) -> bytes:
        what, key, value = asked.what.encode(), asked.key, asked.value
        if asked.what in ("get", "delete"):
            return b"%s %s\r\n" % (what, key)
        if asked.what in ("incr", "decr", "touch"):
            return b"%s %s %s\r\n" % (what, key, value)
        return b"%s %s 0 0 %d\r\n%s\r\n" % (what, key, len(value), value)

    def answer(self, asked: Asked) -> Answer:
        line = self.file.readline()
        assert line.endswith(b"\r\n"), "the server ended the connection"
        words = line[:-2].split(b" ")
        if words[0] == b"VALUE":
            assert words[1:3] == [asked.key, b"0"]
            value = self.exactly(int(words[3]))
            assert self.exactly(7) == b"\r\nEND\r\n"
            return Answer("ok", value)
        if asked.what == "get":
            assert words == [b"END"]
            return Answer("missing")
        if words[0].isdigit():
            return Answer("ok", words[0])
        outcome = self.ANSWERS[line[:-2]]
        # What could not be appended to is not there.
        if outcome == "exists" and asked.what in ("append", "prepend", "replace"):
            outcome = "missing"
        return Answer(outcome)


class Binary(Wire):
    """The binary protocol: https://docs.memcached.org/protocols/binary/."""

    CODES: ClassVar = {
        "get": 0x00,
        "set": 0x01,
        "add": 0x02,
        "replace": 0x03,
        "delete": 0x04,
        "incr": 0x05,
        "decr": 0x06,
        "append": 0x0E,
        "prepend": 0x0F,
        "touch": 0x1C,
    }
    STATUSES: ClassVar = {0: "ok", 1: "missing", 2: "exists", 3: "too large", 5: "missing", 6: "no number"}
    HEADER = struct.Struct(">BBHBBHIIQ")

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.sent = self.answered = 0

    def send(self, commands: list[Asked]) -> bytes:
        return b"".join(map(self.request, commands))

    def request(self, asked: Asked) -> bytes:
        extras, value = b"", asked.value
        if asked.what in ("set", "add", "replace"):
            extras = struct.pack(">II", 0, 0)
        elif asked.what in ("incr", "decr"):
            # What is not there stays so.
            extras, value = struct.pack(">QQI", int(value), 0, 0xFFFF_FFFF), b""
        elif asked.what == "touch":
            extras, value = struct.pack(">I", int(value)), b""
        elif asked.what in ("get", "delete"):
            value = b""
        self.sent += 1
        lengths = len(extras) + len(asked.key) + len(value)
        code = self.CODES[asked.what]
        header = self.HEADER.pack(0x80, code, len(asked.key), len(extras), 0, 0, lengths, self.sent, 0)
        return header + extras + asked.key + value

    def answer(self, asked: Asked) -> Answer:
        header = self.HEADER.unpack(self.exactly(self.HEADER.size))
        magic, code, key_bytes, extras_bytes, _, status, length, opaque, _ = header
        self.answered += 1
        assert (magic, code, opaque) == (0x81, self.CODES[asked.what], self.answered)
        body = self.exactly(length)
        if status != 0:
            return Answer(self.STATUSES[status])
        value = body[extras_bytes + key_bytes :]
        if asked.what in ("incr", "decr"):
            (number,) = struct.unpack(">Q", value)
            value = b"%d" % number
        return Answer("ok", value)


class Model:
    """What a server must answer."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}

    def expected(self, asked: Asked) -> Answer:
        what, key, value = asked.what, asked.key, asked.value
        old = self.values.get(key)
        if what in ("set", "add", "replace") and len(value) >= MAX_VALUE_BYTES:
            # A value that is too large takes the old one with it.
            self.values.pop(key, None)
            return Answer("too large")
        if what == "set" or (what == "add" and old is None):
            self.values[key] = value
            return Answer("ok")
        if what == "add":
            return Answer("exists")
        if old is None:
            return Answer("missing")
        if what in ("incr", "decr"):
            if not old.rstrip(b" ").isdigit():
                return Answer("no number")
            count = int(old) + int(value) if what == "incr" else max(0, int(old) - int(value))
            new = b"%d" % (count % (1 << 64))
            # A shorter number is filled up with spaces.
            self.values[key] = new.ljust(len(old))
            return Answer("ok", new)
        if what == "get":
            return Answer("ok", old)
        if what == "delete":
            del self.values[key]
        elif what != "touch":
            self.values[key] = {"replace": value, "append": old + value, "prepend": value + old}[what]
        return Answer("ok")


COMMANDS = ("get", "set", "add", "replace", "delete", "append", "prepend", "incr", "decr", "touch")
SIZES = (0, 1, 100, 1400, 4096, 9000, 50_000)


def some_commands(rng: random.Random, prefix: bytes) -> list[Asked]:
    commands = []
    for _ in range(rng.choice([1, 1, 2, 5, 30])):
        what = rng.choice(COMMANDS)
        has_number = rng.random() < (0.9 if what in ("incr", "decr") else 0.2)
        if what in ("incr", "decr", "touch") or has_number:
            value = b"%d" % rng.randrange(1, 1000)
        else:
            value = (b"x" + rng.randbytes(rng.choice(SIZES)))[: rng.choice([None, None, None, 0])]
        if what in ("append", "prepend"):
            # Appended to for ever, a value grows too large; and a number would be none.
            has_number, value = False, b"x" + value[:500]
        kind = b"number" if has_number else b"bytes"
        commands.append(Asked(what, b"%s-%s-%d" % (prefix, kind, rng.randrange(4)), value))
    return commands


def check(sock: socket.socket, connection: Connection, rng: random.Random, prefix: bytes, turns: int) -> None:
    """Ask for something at random, several commands at once, and compare the answers with the model's."""
    model = Model()
    for turn in range(turns):
        commands = some_commands(rng, prefix)
        if turn == turns // 2:
            commands.append(Asked("set", prefix + b"-bytes-0", bytes(MAX_VALUE_BYTES)))
        request = connection.send(commands)
        if rng.random() < 0.2:
            # In small pieces.
            for at in range(0, min(len(request), 300), 7):
                sock.sendall(request[at : min(at + 7, 300)])
            request = request[300:]
        sock.sendall(request)
        for command in commands:
            expected = model.expected(command)
            got = connection.answer(command)
            if b"number" in command.key:
                # How many spaces follow a number depends on whether an answer still needs the old one.
                got.value, expected.value = got.value.rstrip(b" "), expected.value.rstrip(b" ")
            assert got == expected, (command.what, command.key, got.outcome, expected.outcome)
