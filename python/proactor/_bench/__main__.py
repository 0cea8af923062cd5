"""One step of `proactor bench files`, told as JSON: what there is, a task's data, or a round."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from importlib import metadata
from pathlib import Path

from proactor._bench import packages
from proactor._bench.measuring import Measured
from proactor._bench.tasks import TASKS, Sizes, Wrong


def listed(sizes: Sizes) -> Measured:
    tasks = [
        {
            "name": name,
            "about": task.words(sizes),
            "bytes": task.size(sizes),
            "contenders": [
                {"name": each, "missing": packages.missing(packages.package_of(each))}
                for each in task.contenders
            ],
        }
        for name, task in TASKS.items()
    ]
    versions = {name: metadata.version(name) for name in packages.MODULES if packages.is_installed(name)}
    versions["Python"] = f"{platform.python_implementation()} {platform.python_version()}"
    return {"tasks": tasks, "versions": versions}


def measured(args: argparse.Namespace, sizes: Sizes) -> Measured:
    packages.import_for(args.contender)
    task = TASKS[args.task]
    taken, costs = task.run(args.contender, args.place, sizes, args.verify, calls_by_name=args.count)
    return {**costs, "ops": taken.ops, "bytes": taken.bytes, "latencies_ns": taken.latencies_ns}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m proactor._bench", description=__doc__)
    parser.add_argument("step", choices=["list", "make", "run"])
    parser.add_argument("task", nargs="?", choices=list(TASKS))
    parser.add_argument("place", nargs="?", type=Path)
    parser.add_argument("contender", nargs="?")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--count", action="store_true", help="system calls, by name")
    args = parser.parse_intermixed_args()
    sizes = Sizes.of(args.quick)
    try:
        if args.step == "list":
            print(json.dumps(listed(sizes)))
        elif args.step == "make":
            TASKS[args.task].make(args.place, sizes)
        else:
            print(json.dumps(measured(args, sizes)))
    except Wrong as wrong:
        print(f"{args.contender}: {wrong}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
