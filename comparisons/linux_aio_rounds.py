"""The work of linux_aio's README: 1,000 rounds, a millisecond apart, each reading 1, 6, 12 or 24 small files.

    python comparisons/linux_aio_rounds.py                  # a table in markdown, some minutes
    python comparisons/linux_aio_rounds.py --json out.json  # every sample too
    python comparisons/linux_aio_rounds.py --smoke          # seconds: does it run at all?

As in the README's script every sample imports asyncio and the packages, whichever it uses, so that its memory
is what the work takes; what each import takes is in a table of its own. Each sample is a process of
its own. The samples of all variants are interleaved, repeat by repeat. A variant whose package is missing
is left out, and the table says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import zlib
from importlib import metadata
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("linux_aio_rounds_child.py")

ROUNDS = 1000
INTERVAL_S = 0.001
FILE_COUNTS = (1, 6, 12, 24)
MIN_FILE_BYTES, MAX_FILE_BYTES = 1 << 10, 100 << 10
REPEATS = 5
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


def run_sample(variant: str, rounds: int, paths: list[str], modules: list[str]) -> dict[str, Any]:
    command = [sys.executable, str(CHILD), ",".join(modules), variant, str(rounds), str(INTERVAL_S), *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{variant}: {done.stderr.strip()}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


# The table


def make_files(folder: Path, count: int) -> list[str]:
    rng = random.Random(SEED)
    paths = []
    for at in range(count):
        path = folder / f"{at:02}"
        path.write_bytes(rng.randbytes(rng.randint(MIN_FILE_BYTES, MAX_FILE_BYTES)))
        paths.append(str(path))
    return paths


def environment(folder: Path) -> dict[str, str]:
    file_system = "unknown"
    with open("/proc/self/mounts") as mounts:
        places = [line.split()[1:3] for line in mounts]
    for place, kind in sorted(places, key=lambda entry: len(entry[0])):
        if folder.resolve().is_relative_to(place):
            file_system = kind
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            continue
    return {
        "kernel": platform.release(),
        "machine": platform.machine(),
        "CPUs": str(len(os.sched_getaffinity(0))),
        "file system": file_system,
        "Python": platform.python_version(),
        "packages": ", ".join(versions) or "none",
    }


def spread(values: list[float], digits: int) -> str:
    median = statistics.median(values)
    return f"{median:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def imports_table(folder: Path) -> str:
    """The peak RSS of a process that imports a package and reads one file with open()."""
    lines = ["| imported | peak RSS, MB |", "| --- | --- |"]
    (path,) = make_files(folder, 1)
    for module in ["", *installed()]:
        sample = run_sample("open(), opened", 1, [path], [module])
        lines.append(f"| {module or 'nothing'} | {sample['rss_mb']:.1f} |")
    return "\n".join(lines)


def table(samples: dict[str, list[dict[str, Any]]]) -> str:
    lines = [
        "| variant | run time, s | CPU user + system, s | of which system, s | threads | peak RSS, MB |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for variant, taken in samples.items():
        cells = [
            variant,
            spread([sample["run_s"] for sample in taken], 2),
            spread([sample["user_s"] + sample["system_s"] for sample in taken], 2),
            spread([sample["system_s"] for sample in taken], 2),
            str(max(sample["threads"] for sample in taken)),
            spread([sample["rss_mb"] for sample in taken], 1),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--smoke", action="store_true", help="3 rounds, 1 and 6 files, one sample")
    parser.add_argument("--json", metavar="FILE", help="write every sample there")
    parser.add_argument("--repeats", type=int, default=REPEATS, help="samples of each variant (%(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="rounds of each sample (%(default)s)")
    parser.add_argument("--dir", help="where to put the files (the default is the temporary folder)")
    options = parser.parse_args()

    counts: tuple[int, ...] = FILE_COUNTS
    if options.smoke:
        counts, options.rounds, options.repeats = (1, 6), 3, 1
    names, missing = variants()
    modules = installed()
    results: dict[int, dict[str, list[dict[str, Any]]]] = {}
    with tempfile.TemporaryDirectory(prefix="rounds-", dir=options.dir) as folder:
        paths = make_files(Path(folder), max(counts))
        expected = [zlib.crc32(Path(path).read_bytes()) for path in paths]
        facts = environment(Path(folder))
        print("; ".join(f"{name}: {value}" for name, value in facts.items()))
        print(
            f"{options.rounds} rounds, {INTERVAL_S * 1000:g} ms apart, files of 1 to 100 KB, page cache warm."
        )
        print(f"Medians of {options.repeats} (minimum to maximum). RSS is the peak, with Python's own,")
        print(f"and with what every sample imports: {', '.join(modules)}.")
        for reason in missing:
            print(f"Left out: {reason}.")
        print(f"\n{imports_table(Path(folder))}", flush=True)
        for count in counts:
            samples: dict[str, list[dict[str, Any]]] = {variant: [] for variant in names}
            for _ in range(options.repeats):
                for variant in names:
                    sample = run_sample(variant, options.rounds, paths[:count], modules)
                    if sample.pop("checksums") != expected[:count]:
                        raise SystemExit(f"{variant}: wrong content")
                    samples[variant].append(sample)
            results[count] = samples
            print(f"\n{count} file{'s' if count > 1 else ''}:\n\n{table(samples)}", flush=True)
    if options.json:
        report = {"environment": facts, "rounds": options.rounds, "left_out": missing, "results": results}
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
