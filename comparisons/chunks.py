"""One large file: in a sequence, by chunks of 64 KB and 1 MB and as a whole, and 4 KiB blocks at random.

Cached; cold, with its data not in the page cache; direct, past it by O_DIRECT. `read` gives new bytes each
time, `readinto` fills the same aligned memory again and again. A sequential reader's bytes are counted, a
random one's last blocks compared with the file. A direct file of proactor's has a buffer of 256 KiB, so
chunks of 64 KB are fewer reads there.

At random, as many workers as the depth each await one read after the other, for some seconds, and no block is
read twice. Everybody has told the kernel so (POSIX_FADV_RANDOM). fio, with io_uring, the same depth and
registered file and buffers, hands nothing to Python: a ceiling.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import chunks_child as child
import lib
import packages

SIZE_MIB, SMOKE_SIZE_MIB = 2_000, 8
SECONDS, SMOKE_SECONDS = 3.0, 0.1
DEPTHS, SMOKE_DEPTHS = (1, 16, 64, 256), (1, 16)
CHUNKS = {"64KB": 64 << 10, "1MB": 1 << 20, "whole": child.WHOLE}
PARTS = ("sequential", "random")
STATES = ("cached", "cold", "direct")
FIO = "fio, io_uring"


# The data


def make(path: Path, size_mib: int) -> None:
    """Random bytes, so that nothing below can compress them or leave out a block."""
    if path.exists():
        return
    lib.tell(f"making a file of {size_mib} MiB")
    path.parent.mkdir(parents=True, exist_ok=True)
    part, dice = path.with_suffix(".part"), random.Random(size_mib)
    with open(part, "wb") as file:
        for _ in range(size_mib):
            file.write(dice.randbytes(1 << 20))
    part.rename(path)
    lib.tell("")


def has_direct(path: Path) -> bool:
    try:
        with child.descriptor(str(path), direct=True):
            return True
    except OSError:
        return False


def prepare(path: Path, state: str, *, gently: bool) -> str:
    """The page cache as the state wants it; how that was done."""
    if state == "cached":
        return lib.make_warm([path])
    if state == "cold":
        return lib.make_cold([path], gently=gently)
    # Cached pages would have to be looked for at each direct read.
    return "O_DIRECT, " + lib.make_cold([path], gently=True)


# In a sequence

SEQUENTIAL_HEAD = ["reader", "MB/s", "ratio", "ms", "CPU ms (user+sys)", "max late ms"]


def sequential_rows(found: dict[str, list[lib.Measured]], size: int) -> list[list[str]]:
    base = next(iter(found.values()))
    for rounds in found.values():
        for measured in rounds:
            measured["mb_s"] = size / measured["wall_s"] / 1e6
    return [
        [
            reader,
            f"{lib.number(rounds, 'mb_s'):.0f}",
            f"{lib.number(rounds, 'wall_s').median / lib.number(base, 'wall_s').median:.2f}",
            f"{lib.number(rounds, 'wall_s', 1e3).median:.0f}",
            f"{lib.number(rounds, 'user_s', 1e3).median:.0f}"
            f"+{lib.number(rounds, 'system_s', 1e3).median:.0f}",
            lib.late_ms(rounds),
        ]
        for reader, rounds in found.items()
    ]


def sequential(path: Path, args: argparse.Namespace, data: lib.Measured) -> str:
    text, size = "", path.stat().st_size
    for state in args.state or STATES:
        for chunk_name, chunk in CHUNKS.items():
            if state == "direct" and chunk == child.WHOLE:
                continue
            all_readers = child.sequential_readers(state, chunk)
            readers = all_readers[:1] + [r for r in all_readers[1:] if not args.only or args.only in r]
            packages.require(readers)
            how = ""

            def cell(reader: str, state: str = state, chunk: int = chunk) -> lib.Measured:
                nonlocal how
                how = prepare(path, state, gently=args.smoke)
                flags = ["--direct"] if state == "direct" else []
                result = lib.fresh_process(child.__file__, reader, str(path), "--chunk", str(chunk), *flags)
                assert result["bytes"] == size, f"{reader}: {result['bytes']} of {size} bytes"
                return result

            found = lib.in_rounds(readers, args.rounds, cell)
            title = "as a whole" if chunk == child.WHOLE else f"by {chunk_name}"
            text += f"\n## {title}, {state} ({how})\n\n"
            text += lib.table(SEQUENTIAL_HEAD, sequential_rows(found, size)) + "\n"
            data["sequential"][f"{chunk_name} {state}"] = found
    return text


# At random

RANDOM_HEAD = ["reader", "depth", "IOPS", "of fio", "CPU us/read", "max late ms"]


def run_fio(path: Path, depth: int, seconds: float, *, direct: bool) -> lib.Measured:
    command = ["fio", "--name=randread", f"--filename={path}", "--readonly", "--rw=randread", "--bs=4k"]
    command += [f"--direct={direct:d}", "--ioengine=io_uring", f"--iodepth={depth}", "--time_based"]
    command += [f"--runtime={seconds * 1e3:.0f}ms", "--randrepeat=0", "--gtod_reduce=1"]
    command += ["--registerfiles", "--fixedbufs", "--output-format=json"]
    if direct:  # What keeps it from reading a block twice costs time, and matters to the page cache only.
        command.append("--norandommap")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    job = json.loads(done.stdout)["jobs"][0]
    reads = job["read"]["total_ios"]
    busy_us = (job["usr_cpu"] + job["sys_cpu"]) / 100 * job["read"]["runtime"] * 1e3
    return {"iops": job["read"]["iops"], "reads": reads, "cpu_us": busy_us / max(reads, 1)}


def random_rows(found: dict[tuple[str, int], list[lib.Measured]]) -> list[list[str]]:
    result = []
    for (reader, depth), rounds in found.items():
        iops, ceiling = lib.number(rounds, "iops"), found.get((FIO, depth))
        of_fio = f"{iops.median / lib.number(ceiling, 'iops').median:.2f}" if ceiling else "-"
        cpu = f"{lib.number(rounds, 'cpu_us').median:.1f}"
        result.append([reader, str(depth), f"{iops:.0f}", of_fio, cpu, lib.late_ms(rounds)])
    return result


def at_random(path: Path, args: argparse.Namespace, data: lib.Measured) -> str:
    text = ""
    seconds, depths = (SMOKE_SECONDS, SMOKE_DEPTHS) if args.smoke else (SECONDS, DEPTHS)
    readers = [reader for reader in child.RANDOM if not args.only or args.only in reader]
    if shutil.which("fio"):
        readers.insert(0, FIO)
    else:
        print("fio is missing: there is no ceiling to compare with", file=sys.stderr)
    for state in args.state or STATES:
        if state == "cached":
            continue
        how = ""

        def cell(case: tuple[str, int], state: str = state) -> lib.Measured:
            nonlocal how
            reader, depth = case
            how = prepare(path, state, gently=args.smoke)
            if reader == FIO:
                return run_fio(path, depth, seconds, direct=state == "direct")
            flags = ["--direct"] if state == "direct" else []
            command = [reader, str(path), "--depth", str(depth), "--seconds", str(seconds), *flags]
            return lib.fresh_process(child.__file__, *command)

        cases = [(reader, depth) for depth in depths for reader in readers]
        found = lib.in_rounds(cases, args.rounds, cell)
        text += f"\n## 4 KiB at random, {state} ({how})\n\n{lib.table(RANDOM_HEAD, random_rows(found))}\n"
        data["random"][state] = {f"{reader}, depth {depth}": found[reader, depth] for reader, depth in cases}
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description="Read one large file: chunks, and blocks at random.")
    lib.add_output_arguments(parser, rounds=5)
    parser.add_argument("--size", type=int, metavar="MIB", help=f"of the file (default: {SIZE_MIB:,})")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one (default: both)")
    parser.add_argument("--state", choices=STATES, action="append", help="only this one (default: all)")
    parser.add_argument(
        "--only", metavar="TEXT", help="only readers with TEXT in the name, the synchronous one and fio"
    )
    parser.add_argument("--dir", type=Path, default=lib.ROOT / ".demo" / "chunks", help="for the file")
    args = parser.parse_args()
    if args.smoke:
        args.rounds = 1
    size_mib = args.size or (SMOKE_SIZE_MIB if args.smoke else SIZE_MIB)
    if size_mib >= 2_048:
        parser.error("at most 2,047: the kernel gives no more in one read, and some ask only once")
    path = args.dir / f"{size_mib}MiB.bin"
    make(path, size_mib)
    if "direct" in (args.state or STATES) and not has_direct(path):
        sys.exit(f"{path}: no O_DIRECT here: choose another --dir, or only --state cached and --state cold")
    data: lib.Measured = {"environment": {}, "sequential": {}, "random": {}}
    text = ""
    parts = args.part or PARTS
    if "sequential" in parts:
        text += sequential(path, args, data)
    if "random" in parts:
        text += at_random(path, args, data)
    data["environment"] = {
        **lib.environment(args.dir, ["proactor", *packages.RIVALS]),
        "fio": fio_version(),
        "file": f"{size_mib:,} MiB",
    }
    lib.finish("chunks", lib.header("chunks", data["environment"], lib.command_line()) + text, data, args)


def fio_version() -> str:
    if not shutil.which("fio"):
        return "not installed"
    return subprocess.run(["fio", "--version"], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    main()
