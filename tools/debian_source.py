"""Fetch a Debian source package by a configuration of apt of our own: the machine's stays as it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def fetch(package: str, place: Path) -> Path:
    """Fetch a source package, `name` or `name=version`, without unpacking it; return where its files are."""
    apt, packages = place / "apt", place / "packages"
    for directory in ("state/lists/partial", "cache/archives/partial"):
        (apt / directory).mkdir(parents=True)
    packages.mkdir()
    environment = {**os.environ, "APT_CONFIG": str(apt / "apt.conf")}
    (apt / "sources.list").write_text("".join(sorted(source_lines())))
    (apt / "apt.conf").write_text(
        f'Dir::Etc::sourcelist "{apt}/sources.list"; Dir::Etc::sourceparts "-"; Dir::State "{apt}/state";\n'
        f'Dir::State::status "/var/lib/dpkg/status"; Dir::Cache "{apt}/cache"; APT::Sandbox::User "root";\n'
        'Acquire::Retries "3";\n'
    )
    subprocess.run(["apt-get", "-qq", "update"], env=environment, check=True)
    get = ["apt-get", "-qq", "source", "--download-only", package]
    subprocess.run(get, env=environment, cwd=packages, check=True)
    return packages


def source_lines() -> set[str]:
    """Return the machine's own Debian repositories, as those of source packages."""
    form = "$(ORIGIN)|$(REPO_URI)|$(CODENAME)|$(COMPONENT)|$(SIGNED_BY)"
    listed = subprocess.run(
        ["apt-get", "indextargets", "--format", form, "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=True,
    )
    lines = set()
    for line in listed.stdout.splitlines():
        origin, uri, codename, component, key = line.split("|")
        if origin == "Debian" and component == "main":
            signed = f"[signed-by={key}] " if key.startswith("/") else ""
            lines.add(f"deb-src {signed}{uri} {codename} main\n")
    if not lines:
        tool = Path(sys.argv[0]).name
        sys.exit(f"{tool}: apt knows no repository of Debian; give --source the unpacked source package")
    return lines
