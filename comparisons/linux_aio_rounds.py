"""The work of linux_aio's README: 1,000 rounds, a millisecond apart, each reading 1, 6, 12 or 24 small files.

The files have 1 to 100 KB and are cached. They are opened in each round, or kept open. As in the README's
script, every sample imports asyncio and all packages, so that differences in memory come from the work. What
each import takes is in a separate table. A variant whose package is missing is left out, and the first table
says so. Peak RSS includes pages of files, such as a program's code, which processes share. Private memory is
the rest, while a round's contents are held.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import lib
import summaries
import tables

CHILD = Path(__file__).with_name("linux_aio_rounds_child.py")

ROUNDS, SMOKE_ROUNDS = 1000, 3
INTERVAL_S = 0.001
FILE_COUNTS, SMOKE_FILE_COUNTS = (1, 6, 12, 24), (1, 6)
MIN_FILE_BYTES, MAX_FILE_BYTES = 1 << 10, 100 << 10
SEED = 20260101

ENGINES = ("io_uring", "linux_aio", "posix_aio", "threads")
# What every sample imports, as the README's script does. Without caio, whose import starts threads.
MODULES = ("asyncio", "linux_aio", "proactor.aio")
PACKAGES = ("proactor", "linux_aio", "linux-aio-bind", "caio")


def variants() -> tuple[list[str], list[str]]:
    """Those that can run here, and why the others cannot."""
    names, missing = ["open()"], []
    for package in ("linux_aio", "caio"):
        if importlib.util.find_spec(package):
            names.append(package)
        else:
            missing.append(f"{package}: not installed")
    if importlib.util.find_spec("proactor"):
        usable = subprocess.run(
            [sys.executable, "-c", "import proactor; print(*proactor.engines())"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        names += [f"proactor.aio {engine}" for engine in ENGINES if engine in usable]
        missing += [f"proactor.aio {engine}: not usable here" for engine in ENGINES if engine not in usable]
    else:
        missing.append("proactor: not installed")
    return [f"{name}, {files}" for name in names for files in ("opened", "kept")], missing


# The samples


def installed() -> list[str]:
    return [module for module in MODULES if importlib.util.find_spec(module.partition(".")[0])]


def sample(variant: str, rounds: int, paths: list[str], modules: list[str]) -> lib.Measured:
    return lib.fresh_process(CHILD, ",".join(modules), variant, str(rounds), str(INTERVAL_S), *paths)


def make_files(folder: Path, count: int) -> list[str]:
    rng = random.Random(SEED)
    paths = []
    for at in range(count):
        path = folder / f"{at:02}"
        path.write_bytes(rng.randbytes(rng.randint(MIN_FILE_BYTES, MAX_FILE_BYTES)))
        paths.append(str(path))
    return paths


# The comparison

HEAD = ["CPU ms (user+sys)", "threads", "peak RSS MB", "private MB"]


def groups(data: lib.Measured) -> Iterator[tables.Group]:
    imports = [
        tables.Row(name, tables.number(samples, "rss_mb"), of_ours=False)
        for name, samples in data.get("imports", {}).items()
    ]
    left_out = " ".join(f"Left out: {reason}." for reason in data["left_out"])
    if imports:
        yield tables.Group("imported, and one file read", "peak RSS MB", imports, digits=1, note=left_out)
    for count, found in data["results"].items():
        for files in ("opened", "kept"):
            rows = [
                tables.Row(
                    variant.removesuffix(f", {files}"),
                    tables.number(samples, "run_s"),
                    [
                        tables.cpu_ms(samples),
                        f"{tables.number(samples, 'threads').highest:.0f}",
                        f"{tables.number(samples, 'rss_mb'):.1f}",
                        f"{tables.number(samples, 'private_mb'):.1f}" if "private_mb" in samples[0] else "",
                    ],
                )
                for variant, samples in found.items()
                if variant.endswith(f", {files}")
            ]
            when = "opened in each round" if files == "opened" else "kept open"
            plural = "s" if int(count) > 1 else ""
            yield tables.Group(f"{count} file{plural}, {when}", "s", rows, HEAD, digits=2)


# With its figures: it is a part of docs/speed.md.
MEMORY = """\
Our goal for 24 files kept open is at most the CPU time of linux_aio, and 25 MB. The CPU time is less (260
and 270 ms), and the memory is 25.5 MB. Imports cause it: open() has 25.2 MB, too. A program that imports
only what it uses, asyncio and `proactor.aio`, has 24.3 MB with the files kept open and 24.6 with files
opened in each round. With linux_aio alone it has 23.6 and 43.8, and with open() and neither 21.6. Three
attempts (2026-11-26, 200 rounds; 26.0 and 26.2 MB without them, 25.6 for open()):

- One arena of malloc, nothing kept at the top of its heap, and mmap from 32 KiB on: 26.0 and 26.2.
- Linux AIO instead of a ring: 25.9 and 26.2.
- Python without docstrings and assertions (`-OO`): 25.7 and 25.9, which every program gains.

None is worth a default. Of the memory beyond open()'s, 0.05 MB are private, and the rest is program code
that processes share."""


def remarks(environment: dict[str, str]) -> str:
    """Explains the memory on interpreters on which it is above the goal."""
    version = environment["Python"].split()[-1].split(".")
    return MEMORY if int(version[1]) >= 12 else ""


def main() -> None:
    parser = argparse.ArgumentParser(description="The work of linux_aio's README, by it and by others.")
    tables.add_arguments(parser, rounds=5, always="open()")
    parser.add_argument("--files", type=int, action="append", help="how many (default: 1, 6, 12, 24)")
    parser.add_argument("--dir", type=Path, help="where to put the files (default: the temporary folder)")
    args = tables.parse(parser)

    rounds = SMOKE_ROUNDS if args.smoke else ROUNDS
    counts = args.files or (SMOKE_FILE_COUNTS if args.smoke else FILE_COUNTS)
    names, left_out = variants()
    names = tables.chosen(names, args.only, "open(), opened", "open(), kept")
    modules = installed()
    results = {}
    with tempfile.TemporaryDirectory(prefix="rounds-", dir=args.dir) as folder:
        environment = lib.environment(Path(folder), PACKAGES)
        paths = make_files(Path(folder), max(counts))
        expected = [zlib.crc32(Path(path).read_bytes()) for path in paths]

        def imported(module: str) -> lib.Measured:
            return sample("open(), opened", 1, paths[:1], [] if module == "nothing" else [module])

        imports = lib.in_rounds(["nothing", *modules], args.rounds, imported)
        budget = lib.Budget(args.minutes, len(counts))
        for count in counts:

            def cell(variant: str, count: int = count) -> lib.Measured:
                found = sample(variant, rounds, paths[:count], modules)
                assert found.pop("checksums") == expected[:count], f"{variant}: wrong content"
                return found

            results[count] = lib.in_rounds(names, args.rounds, cell, budget.part())
    data = {
        "environment": environment,
        "rounds": rounds,
        "left_out": left_out,
        "imports": imports,
        "results": results,
    }
    summaries.finish("linux_aio_rounds", data, groups(data), args)


if __name__ == "__main__":
    main()
