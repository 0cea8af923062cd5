"""The functions of `os` that are one call, as coroutines; a stub has their signatures."""

from __future__ import annotations

import os

from proactor._pool import in_place, threaded

# Whose functions they are for `help`, `repr` and `pickle`.
MODULE = "proactor.os"

# What a file is
access = threaded(os.access, MODULE)
statvfs = threaded(os.statvfs, MODULE)
fstatvfs = threaded(os.fstatvfs, MODULE)
pathconf = threaded(os.pathconf, MODULE)
fpathconf = threaded(os.fpathconf, MODULE)
readlink = threaded(os.readlink, MODULE)

# Changing what it is
chmod = threaded(os.chmod, MODULE)
fchmod = threaded(os.fchmod, MODULE)
chown = threaded(os.chown, MODULE)
fchown = threaded(os.fchown, MODULE)
lchown = threaded(os.lchown, MODULE)
utime = threaded(os.utime, MODULE)
getxattr = threaded(os.getxattr, MODULE)
listxattr = threaded(os.listxattr, MODULE)
removexattr = threaded(os.removexattr, MODULE)
setxattr = threaded(os.setxattr, MODULE)

# Names
link = threaded(os.link, MODULE)
symlink = threaded(os.symlink, MODULE)
mkfifo = threaded(os.mkfifo, MODULE)
mknod = threaded(os.mknod, MODULE)
remove = threaded(os.remove, MODULE)
unlink = threaded(os.unlink, MODULE)
rename = threaded(os.rename, MODULE)
renames = threaded(os.renames, MODULE)
replace = threaded(os.replace, MODULE)

# Directories
mkdir = threaded(os.mkdir, MODULE)
makedirs = threaded(os.makedirs, MODULE)
rmdir = threaded(os.rmdir, MODULE)
removedirs = threaded(os.removedirs, MODULE)
getcwd = in_place(os.getcwd, MODULE)
getcwdb = in_place(os.getcwdb, MODULE)

# What a file holds
truncate = threaded(os.truncate, MODULE)
ftruncate = threaded(os.ftruncate, MODULE)
posix_fallocate = threaded(os.posix_fallocate, MODULE)
posix_fadvise = threaded(os.posix_fadvise, MODULE)
copy_file_range = threaded(os.copy_file_range, MODULE)
sendfile = threaded(os.sendfile, MODULE)
fsync = threaded(os.fsync, MODULE)
fdatasync = threaded(os.fdatasync, MODULE)
sync = threaded(os.sync, MODULE)
