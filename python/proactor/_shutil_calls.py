"""The functions of `shutil` that are one call, as coroutines; a stub has their signatures."""

from __future__ import annotations

import shutil

from proactor._pool import threaded

# Whose functions they are for `help`, `repr` and `pickle`.
MODULE = "proactor.shutil"

copymode = threaded(shutil.copymode, MODULE)
copystat = threaded(shutil.copystat, MODULE)
disk_usage = threaded(shutil.disk_usage, MODULE)
make_archive = threaded(shutil.make_archive, MODULE)
unpack_archive = threaded(shutil.unpack_archive, MODULE)
which = threaded(shutil.which, MODULE)
chown = threaded(shutil.chown, MODULE)
