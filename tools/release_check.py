"""What a release needs and CI does not check, without any service: `make release-check`.

Packages of all crates, the documentation as docs.rs makes it, licences, the oldest Rust of each crate, and
the interface against the last release. Nothing is published. What could not be checked is said at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
# Libraries: what others build upon. The command and the extension have no interface in Rust.
LIBRARIES = ("proactor-engine", "proactor-file", "proactor-net", "proactor-tokio", "proactor-copy")


def run(*command: str, **env: str) -> None:
    print(f"release-check: {' '.join(command)}", flush=True)
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, check=False)
    if done.returncode:
        sys.exit(f"release-check: {command[0]} {command[1]} has failed")


def crates() -> list[dict[str, Any]]:
    command = ["cargo", "metadata", "--locked", "--no-deps", "--format-version=1"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    return found


def oldest(crates: list[dict[str, Any]]) -> dict[str, list[str]]:
    """The libraries by the oldest Rust that they say they need."""
    found: dict[str, list[str]] = {}
    for crate in crates:
        if crate["name"] in LIBRARIES:
            found.setdefault(crate["rust_version"], []).append(crate["name"])
    return found


def check_oldest(crates: list[dict[str, Any]]) -> str | None:
    if not shutil.which("rustup"):
        return "there is no rustup, so the oldest Rust of each crate is not tried"
    for version, names in oldest(crates).items():
        run("rustup", "toolchain", "install", version, "--profile", "minimal")
        packages = [word for name in names for word in ("--package", name)]
        run(
            "rustup", "run", version, "cargo", "check", "--locked", *packages, "--target-dir", "target/oldest"
        )
    return None


def check_features() -> None:
    """The engine without those of its backends that are features, and with each of them alone."""
    alone = [["--features", name] for name in ("linux-aio", "posix-aio", "sim", "futures")]
    for features in [[], *alone]:
        run("cargo", "check", "--locked", "-p", "proactor-engine", "--no-default-features", *features)
    run("cargo", "test", "--locked", "-p", "proactor-engine", "--no-default-features", "--lib", "left_out")


def last_release() -> str:
    """The last tag, or nothing."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def check_interface(baseline: str) -> str | None:
    if not baseline:
        return "no tag v* is there to compare the interface with: BASELINE=REVISION names a revision"
    if not shutil.which("cargo-semver-checks"):
        sys.exit("release-check: cargo install --locked cargo-semver-checks")
    packages = [word for name in LIBRARIES for word in ("--package", name)]
    run("cargo", "semver-checks", *packages, "--baseline-rev", baseline)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description="What a release needs and CI does not check.")
    parser.add_argument(
        "--baseline", help="compare the interface with this revision (default: the last tag v*)"
    )
    baseline = parser.parse_args().baseline or last_release()
    run("cargo", "package", "--locked", "--workspace", "--no-verify", "--quiet")
    run(
        "cargo",
        "doc",
        "--locked",
        "--workspace",
        "--no-deps",
        "--quiet",
        RUSTDOCFLAGS="-D warnings --cfg docsrs",
    )
    run(sys.executable, "tools/licences.py")
    check_features()
    missing = [check_oldest(crates()), check_interface(baseline)]
    for sentence in filter(None, missing):
        print(f"release-check: {sentence}")
    print("release-check: not done: signing, publishing, wheels for other machines")


if __name__ == "__main__":
    main()
