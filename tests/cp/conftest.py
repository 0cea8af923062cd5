"""Fixtures of the tests of `proactor cp`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from capabilities import require
from cp_helpers import Arrange, Outcome, Runner, differences, make_old, outcome_of


@pytest.fixture(scope="session")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    runner = Runner(tmp_path_factory.mktemp("zygote"))
    yield runner
    runner.close()


class Ours:
    """`cp(*arguments)`: `proactor cp` in the test's directory."""

    def __init__(self, runner: Runner, directory: Path) -> None:
        self._runner, self.directory = runner, directory

    def __call__(
        self, *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None
    ) -> Outcome:
        done = self._runner.proactor(self.directory, "cp", *arguments, stdin=stdin, environment=environment)
        return outcome_of(done, self.directory)


@pytest.fixture
def cp(runner: Runner, tmp_path: Path) -> Ours:
    return Ours(runner, tmp_path)


class Same:
    """`same(arrange, *arguments)`: both commands on the same files do and say the same, which is returned.

    `arrange` makes the files, all get old times, then `after` may change them.
    """

    def __init__(self, runner: Runner, place: Path) -> None:
        self._runner, self._place, self._runs = runner, place, 0

    def __call__(self, arrange: Arrange, *arguments: str, **more: Any) -> Outcome:
        expected, found = self.both(arrange, *arguments, **more)
        assert [found.status, *found.stderr] == [expected.status, *expected.stderr]
        # Ours replaces by a rename: nothing is removed first.
        assert found.stdout == [line for line in expected.stdout if not line.startswith("removed ")]
        assert not differences(expected, found)
        return found

    def allowing_status(self, arrange: Arrange, *arguments: str, **more: Any) -> Outcome:
        """For what newer releases of GNU's cp call a failure: a question answered with no (9.2)."""
        expected, found = self.both(arrange, *arguments, **more)
        assert found.status in (expected.status, 1)
        assert (found.stderr, found.stdout) == (expected.stderr, expected.stdout)
        assert not differences(expected, found)
        return found

    def saying(self, arrange: Arrange, *arguments: str, **more: Any) -> Outcome:
        """For refusals: GNU's cp may have copied a part by then, ours need not have."""
        expected, found = self.both(arrange, *arguments, **more)
        assert [found.status, *found.stderr] == [expected.status, *expected.stderr]
        return found

    def both(
        self,
        arrange: Arrange,
        *arguments: str,
        after: Arrange | None = None,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
    ) -> tuple[Outcome, Outcome]:
        self._runs += 1
        gnu, ours = (self._place / f"{name}{self._runs}" for name in ("gnu", "our"))
        for directory in (gnu, ours):
            directory.mkdir()
            arrange(directory)
            make_old(directory)
            if after is not None:
                after(directory)
        expected = self._runner.run(gnu, "cp", *arguments, stdin=stdin, environment=environment)
        found = self._runner.proactor(ours, "cp", *arguments, stdin=stdin, environment=environment)
        return outcome_of(expected, gnu), outcome_of(found, ours)


@pytest.fixture
def same(runner: Runner, tmp_path: Path) -> Same:
    require("GNU cp")
    return Same(runner, tmp_path)
