"""A real browser without a screen, spoken to in its own protocol (CDP) over two pipes."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select
from time import monotonic
from typing import Any

# To start it on a busy machine.
PATIENCE_S = 60.0


class Browser:
    """One page of it."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def show(self, page: Path) -> None:
        """Loads it, and waits until it is there."""
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def ask(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def _next(self) -> dict[str, Any]:
        deadline = monotonic() + PATIENCE_S
        while b"\0" not in self._rest:
            ready, _, _ = select([self._answers], [], [], max(deadline - monotonic(), 0))
            assert ready, "the browser does not answer"
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        text, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Chromium, ended at the end."""
    hears, commands = os.pipe()
    answers, says = os.pipe()
    # The descriptors of the protocol are 3 and 4. As root there is no sandbox.
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    options += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
    program = ["bash", "-c", f'exec chromium "$@" 3<&{hears} 4>&{says}', "bash", *options]
    process = subprocess.Popen(
        program, pass_fds=(hears, says), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(hears)
    os.close(says)
    try:
        one = Browser(commands, answers)
        yield one
        one._session = None
        one.call("Browser.close")
    finally:
        os.close(commands)
        os.close(answers)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
