"""What a user has right after `pip install`: the package, its version, its command."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from importlib.resources import files

import proactor
import pytest
from proactor.__main__ import main


def test_version_is_the_installed_one() -> None:
    assert proactor.__version__ == metadata.version("proactor")


def test_package_is_typed() -> None:
    assert files(proactor).joinpath("py.typed").is_file()


@pytest.mark.parametrize(
    "command",
    [[sys.executable, "-m", "proactor"], [os.path.join(os.path.dirname(sys.executable), "proactor")]],
)
def test_command(command: list[str]) -> None:
    done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"proactor {proactor.__version__}\n"


def test_usage_error_exits_with_2(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["proactor", "--no-such-flag"])
    assert main() == 2
    assert "--no-such-flag" in capfd.readouterr().err
