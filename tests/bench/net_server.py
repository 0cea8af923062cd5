"""A server with faults, for the tests of `bench net`: `net_server.py PORT WHAT`."""

from __future__ import annotations

import socketserver
import sys
import time

SLOW_S = 0.05
BODY = b"x" * 1000


class Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        received = 0
        while data := self.request.recv(1 << 16):
            answer = self.answer(data, received)
            if answer is None:
                return
            self.request.sendall(answer)
            received += len(data)

    def answer(self, data: bytes, received: int) -> bytes | None:
        what = sys.argv[2]
        if what == "slow":
            time.sleep(SLOW_S)
        elif what == "closes" and received >= 1000:
            return None
        elif what == "flips a byte" and received <= 1000 < received + len(data):
            at = 1000 - received
            return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        elif what == "says more":
            return data + b"more"
        elif what == "pages":
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(BODY)}\r\n\r\n".encode()
            return (head + BODY) * data.count(b"\r\n\r\n")
        elif what == "has no page":
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        return data


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[1])), Handler) as server:
        server.serve_forever()
