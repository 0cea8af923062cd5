"""Runs every fuzzer of the project with new seeds; a seed that fails is printed with how to repeat it.

usage: fuzz/run.py [--seconds N] [--seed S] [NAME ...]
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPEN = ROOT / "fuzz" / "open_against_io.py"

# What each tries, and the test that does: it is ignored unless it is asked for.
TESTS = {
    "engine": ("programs of ops against a model", "--test=simulator", "fuzz_programs"),
    "file": ("the buffered file against a model", "--test=buffers", "fuzz::fuzz_buffers"),
    "journal": ("journals of the copier", "--lib", "resume::journal::fuzz::fuzz_journals"),
    "net": ("sockets on a simulated kernel", "--lib", "simulator::fuzz_schedules"),
    "patterns": ("patterns of the copier", "--lib", "select::glob_fuzz::fuzz_patterns"),
    "power": ("the copier when power is lost", "--test=power_loss", "fuzz_power_loss"),
}
OTHERS = {"open": "proactor.open against io"}


def command(name: str, seconds: float, seed: int) -> list[str]:
    if name == "open":
        return [sys.executable, str(OPEN), f"--seconds={seconds:g}", f"--seed={seed}"]
    _, target, test = TESTS[name]
    # As `make test` builds them, so that nothing is built anew.
    features = [f"--features=proactor-python/{name}" for name in os.environ.get("FEATURES", "").split()]
    cargo = ["cargo", "test", "--quiet", "--locked", "--workspace", *features, "--profile=testing", target]
    return [*cargo, "--", "--ignored", "--exact", "--nocapture", test]


def run(name: str, seconds: float, seed: int) -> bool:
    """Whether nothing was found."""
    words = command(name, seconds, seed)
    variables = {"PROACTOR_FUZZ_SECONDS": f"{max(1, round(seconds))}", "PROACTOR_FUZZ_SEED": f"{seed}"}
    print(f"\n--- {name}, seed {seed}", flush=True)
    started = time.monotonic()
    # PROACTOR_SEED is for who repeats one seed.
    ran = name in OTHERS
    with subprocess.Popen(
        words, cwd=ROOT, env={**os.environ, **variables}, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            # Of a name that no test has, cargo says that all is well.
            ran |= b" 1 passed" in line or b" 1 failed" in line
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    status = process.returncode
    if not ran and status == 0:
        print(f"{words[-1]} is the name of no test", flush=True)
        status = 1
    print(f"--- {name}: {'ok' if status == 0 else 'FAILED'} ({time.monotonic() - started:.0f} s)", flush=True)
    if status:
        print(f"repeat with: PROACTOR_SEED=<the failed seed> {' '.join(words)}", flush=True)
    return status == 0


def main() -> int:
    described = [*((name, test[0]) for name, test in TESTS.items()), *OTHERS.items()]
    listed = "\n".join(f"  {name:10}{what}" for name, what in described)
    parser = argparse.ArgumentParser(
        description=(__doc__ or "").partition("\n")[0],
        epilog=f"fuzzers:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seconds", type=float, default=30, help="for all together (default: 30)")
    parser.add_argument("--seed", type=int, help="the first seed of each (default: a new one)")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these fuzzers")
    options = parser.parse_args()
    known = [name for name, _ in described]
    for name in options.names:
        if name not in known:
            parser.error(f"there is no fuzzer '{name}': {', '.join(known)}")
    if options.seconds <= 0:
        parser.error("--seconds must be more than 0")
    names: list[str] = options.names or known
    seed: int = random.SystemRandom().randrange(1 << 32) if options.seed is None else options.seed
    failed = [name for name in names if not run(name, options.seconds / len(names), seed)]
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nnothing was found")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
