"""Fail on a Rust dependency with a licence that is not allowed, from elsewhere, or in two versions.

What `cargo deny check licenses bans sources` does, without first compiling it for minutes (CONTRIBUTING.md).
The Python package has no dependencies, and this checks that too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from typing import Any

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
}
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"  # how Cargo names crates.io
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]

# Crates that may come in two versions: name -> why.
DUPLICATES: dict[str, str] = {}


def allowed(expression: str) -> bool:
    """Whether an SPDX expression leaves a choice that is allowed."""
    tokens = re.findall(r"[()]|[^\s()]+", expression.replace("/", " OR "))
    value, rest = _any_of(tokens)
    return value and not rest


def _any_of(tokens: list[str]) -> tuple[bool, list[str]]:
    value, rest = _all_of(tokens)
    while rest and rest[0] == "OR":
        other, rest = _all_of(rest[1:])
        value = value or other
    return value, rest


def _all_of(tokens: list[str]) -> tuple[bool, list[str]]:
    value, rest = _licence(tokens)
    while rest and rest[0] == "AND":
        other, rest = _licence(rest[1:])
        value = value and other
    return value, rest


def _licence(tokens: list[str]) -> tuple[bool, list[str]]:
    if not tokens:
        return False, tokens
    if tokens[0] == "(":
        value, rest = _any_of(tokens[1:])
        return value and rest[:1] == [")"], rest[1:]
    if tokens[1:2] == ["WITH"]:
        return " ".join(tokens[:3]) in ALLOWED, tokens[3:]
    return tokens[0] in ALLOWED, tokens[1:]


def packages() -> list[dict[str, Any]]:
    """Every crate that a build for one of our targets uses, our own included."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--all-features"]
    command += [f"--filter-platform={target}" for target in TARGETS]
    data = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    used = {node["id"] for node in data["resolve"]["nodes"]}
    return [package for package in data["packages"] if package["id"] in used]


def problems(crates: list[dict[str, Any]]) -> list[str]:
    found = []
    versions: dict[str, list[str]] = {}
    for crate in crates:
        name, version, licence = crate["name"], crate["version"], crate["license"] or ""
        versions.setdefault(name, []).append(version)
        if not allowed(licence):
            found.append(f"{name} {version}: licence {licence or 'not stated'!r} is not allowed")
        if crate["source"] not in (None, REGISTRY):
            found.append(f"{name} {version}: comes from {crate['source']}")
    for name, several in versions.items():
        if len(several) > 1 and name not in DUPLICATES:
            found.append(f"{name}: in several versions, {', '.join(several)}")
    found += [
        f"{name}: allowed twice and not needed" for name in DUPLICATES if len(versions.get(name, [])) < 2
    ]
    return found


def main() -> int:
    crates = packages()
    found = problems(crates)
    requirements = [need for need in metadata.requires("proactor") or [] if "extra ==" not in need]
    found += [f"the Python package requires {need}" for need in requirements]
    print("\n".join(found) or f"licences: {len(crates)} crates are fine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
