"""Redirect `import caio` and the like to `proactor.compat`, in every process of one environment.

The environment loads this module through a `.pth` file, so that a subprocess which starts without any
environment variables is redirected too. `DROPIN_KEEP` names packages, with commas between, that are
imported as they are.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# What is imported: where it is found. The constants of linux_aio_bind are in a module of compat.linux_aio.
PACKAGES = {
    "aiofile": "proactor.compat.aiofile",
    "aiofiles": "proactor.compat.aiofiles",
    "caio": "proactor.compat.caio",
    "linux_aio": "proactor.compat.linux_aio",
    "linux_aio_bind": "proactor.compat.linux_aio.iocb",
}


class _Alias(Loader):
    """Loads a module under a second name, as the same object."""

    def __init__(self, real: str) -> None:
        self.real = real

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.real)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the alias's own spec here.
        module.__spec__ = self.spec


class _Redirect(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, dot, rest = fullname.partition(".")
        if root not in PACKAGES or root in os.environ.get("DROPIN_KEEP", "").split(","):
            return None
        real = PACKAGES[root] + dot + rest
        if importlib.util.find_spec(real) is None:
            return None
        return ModuleSpec(fullname, _Alias(real))


sys.meta_path.insert(0, _Redirect())
