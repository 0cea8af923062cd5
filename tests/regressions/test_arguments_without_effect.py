"""Arguments that had no effect, without a word.

Users saw `sqpoll=True` on another engine than io_uring, `append=True` beside `exclusive=True` and
`verify=True` of a copy that makes links pass. Each function of ours has a value for each of its parameters
here, and all pairs of them are tried: a pair works, or it is named as refused. A new parameter fails the
tests until it is decided what it does beside the others.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import proactor
import proactor.bench
import proactor.net
import proactor.os
import proactor.ospath
import proactor.shutil
import proactor.tempfile
import pytest
from argument_cases import CASES, Case, close_descriptors, handled
from capabilities import require
from conftest import Run
from proactor import aio

# Their options say nothing about each other.
ALONE: dict[str, tuple[str, ...]] = {
    "proactor.copy_finish": ("progress", "check"),
    "proactor.copy_shard": ("progress", "check"),
    "proactor.net.chosen_engine": ("engine",),
    "proactor.aio.aligned": ("alignment",),
    "proactor.aio.Priority": ("value",),
}
# The command of the same name refuses: test_the_options_of_the_command.
COMMANDS = {"run": "io", "run_files": "files", "run_cp": "cp"}


def options(function: Any) -> list[str]:
    """Parameters that need not be given."""
    parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is not one.empty and one.kind not in kinds]


def functions() -> dict[str, Any]:
    found = {}
    for module in (proactor, aio, proactor.net):
        for name in module.__all__:
            value = getattr(module, name)
            is_made = inspect.isclass(value) and value.__module__ != "proactor._copying"
            if inspect.isroutine(value) or is_made:
                found[f"{module.__name__}.{name}"] = value
    return found


# They are made by others, or are the standard library's with its parameters.
NOT_CALLED = {
    "proactor.BinaryFile",
    "proactor.CopyPlan",
    "proactor.Path",
    "proactor.TextFile",
    "proactor.WrappedFile",
    "proactor.aio.CancelOutcome",
    "proactor.aio.Event",
    "proactor.aio.Op",
    "proactor.aio.PriorityClass",
    "proactor.net.Server",
    "proactor.net.Stream",
}


def test_each_function_has_a_decision() -> None:
    cases = {case.function for case in CASES}
    for name, function in functions().items():
        if name in NOT_CALLED or function in cases:
            continue
        assert tuple(options(function)) == ALONE.get(name, ()), name


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_parameter_has_a_value(case: Case, tmp_path: Path) -> None:
    known = {*case.values(tmp_path), *case.given}
    assert set(options(case.function)) <= known, case.name
    assert known <= set(inspect.signature(case.function).parameters), case.name
    close_descriptors()


# What an option needs beside it.
NEEDED: dict[tuple[str, ...], str] = {("include",): "exclude", ("sqpoll_cpu",): "sqpoll"}


def expected(case: Case, names: tuple[str, ...]) -> list[str]:
    """What may be said of them."""
    return [
        words
        for refused, words in case.refused.items()
        if set(refused) <= set(names) and NEEDED.get(refused, "") not in names
    ]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_pairs(case: Case, tmp_path: Path) -> None:
    for capability in case.needs:
        require(capability)
    (tmp_path / "file").write_bytes(b"content\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file").write_bytes(b"content\n")

    async def outcome(names: tuple[str, ...]) -> Exception | None:
        values = case.values(tmp_path)
        try:
            await case.call(tmp_path, {name: values[name] for name in names})
        except (TypeError, ValueError) as error:
            return error
        finally:
            close_descriptors()
        return None

    async def every() -> None:
        known = case.values(tmp_path)
        close_descriptors()
        for names in [*((name,) for name in known), *itertools.combinations(known, 2)]:
            error, words = await outcome(names), expected(case, names)
            if not words:
                assert error is None, (names, error)
            else:
                assert any(one in str(error) for one in words), (names, error)

    asyncio.run(every())


# Of the report, and of measuring nothing.
OF_THE_COMMAND = {
    "csv",
    "dry_run",
    "fio_json",
    "help",
    "html",
    "json",
    "list",
    "markdown",
    "png",
    "progress",
    "svg",
}


@pytest.mark.parametrize(("function", "command"), COMMANDS.items())
def test_the_options_of_the_command(function: str, command: str) -> None:
    """Which refuses what has no effect: each is handed over to it, and none is missing."""
    words = [sys.executable, "-m", "proactor", "bench", command, "--help"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    named = {name.replace("-", "_") for name in re.findall(r"^ +(?:-h, )?--([\w-]+)", said, re.MULTILINE)}
    # The Python that measures is this one, and a file is an operand.
    ours = {*options(getattr(proactor.bench, function))} - {"job_file"}
    assert named - OF_THE_COMMAND - {"python"} == ours


def test_a_ring_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody has named an engine, so a program need not know what works here; it is told all the same."""
    monkeypatch.setenv("PROACTOR_ENGINE", "threads")
    for option in ("sqpoll", "iopoll"):
        with pytest.warns(RuntimeWarning, match=f"{option} has no effect: the engine is threads"):
            aio.Context(**{option: True}).close()  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aio.Context(sqpoll=False).close()
        with pytest.raises(RuntimeWarning, match="sqpoll"):
            aio.Context(sqpoll=True)


def test_no_host(run: Run) -> None:
    with pytest.raises(ValueError, match="None is for all interfaces"):
        run(proactor.net.serve(handled, []))


# What is ours beside the standard library's parameters.
OWN = {"TemporaryFile": {"engine"}, "NamedTemporaryFile": {"engine", "delete_on_close"},
       "SpooledTemporaryFile": {"engine"}, "TemporaryDirectory": {"delete"}}  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(proactor.shutil, shutil), (proactor.tempfile, tempfile), (proactor.os, os), (proactor.ospath, os.path)],
    ids=["shutil", "tempfile", "os", "ospath"],
)
def test_parameters_of_the_standard_library(ours: Any, theirs: Any) -> None:
    """Its rules hold: what it passes over without a word is passed over here."""
    for name in ours.__all__:
        own, other = getattr(ours, name), getattr(theirs, name, None)
        if other is None or not callable(own) or own is other:
            continue
        try:
            known = {*inspect.signature(other).parameters} | {"onexc", "dir_fd", "ignore_errors"}
            mine = {*inspect.signature(own).parameters}
        except ValueError:
            continue
        if "args" in mine or "args" in known:
            continue
        assert mine - OWN.get(name, set()) <= known, name
