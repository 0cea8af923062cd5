"""Every function of `os` and `os.path` is there or left out for a reason, with the same arguments."""

from __future__ import annotations

import inspect
import os
from typing import Any

import proactor
import pytest

# What `proactor.os` does not have: why -> the names.
LEFT_OUT: dict[str, str] = {
    "changes what relative paths mean, also those of calls under way": "chdir fchdir chroot",
    "changes what every call under way creates; asks no file system": "umask",
    "`proactor.open`; a descriptor that nobody waits for any more would leak": """
        open close closerange fdopen
    """,
    "files of `proactor.open`, `proactor.aio`": """
        read readv pread preadv write writev pwrite pwritev lseek
    """,
    "may wait for another process for ever, and the thread with it": "lockf splice",
    "descriptors and terminals, no file system": """
        dup dup2 pipe pipe2 memfd_create eventfd eventfd_read eventfd_write isatty ttyname openpty
        login_tty device_encoding get_blocking set_blocking get_inheritable set_inheritable
        get_terminal_size terminal_size posix_openpt grantpt unlockpt ptsname tcgetpgrp tcsetpgrp ctermid
        timerfd_create timerfd_gettime timerfd_gettime_ns timerfd_settime timerfd_settime_ns
    """,
    "processes": """
        WCOREDUMP WEXITSTATUS WIFCONTINUED WIFEXITED WIFSIGNALED WIFSTOPPED WSTOPSIG WTERMSIG abort execl
        execle execlp execlpe execv execve execvp execvpe fork forkpty kill killpg nice pidfd_open popen
        posix_spawn posix_spawnp register_at_fork spawnl spawnle spawnlp spawnlpe spawnv spawnve spawnvp
        spawnvpe system times times_result wait wait3 wait4 waitid waitid_result waitpid
        waitstatus_to_exitcode setns unshare sched_get_priority_max sched_get_priority_min
        sched_getaffinity sched_getparam sched_getscheduler sched_param sched_rr_get_interval
        sched_setaffinity sched_setparam sched_setscheduler sched_yield getpriority setpriority
    """,
    "the process's own identity": """
        getegid geteuid getgid getgrouplist getgroups getlogin getpgid getpgrp getpid getppid getresgid
        getresuid getsid getuid initgroups setegid seteuid setgid setgroups setpgid setpgrp setregid
        setresgid setresuid setreuid setsid setuid
    """,
    "the system and the environment": """
        confstr cpu_count process_cpu_count get_exec_path getenv getenvb getloadavg getrandom putenv
        strerror sysconf uname uname_result unsetenv urandom
    """,
    "not of `os` itself": "GenericAlias Mapping MutableMapping error",
}


# What paths are put together with.
PARTS = ["altsep", "curdir", "defpath", "devnull", "extsep", "pardir", "pathsep", "sep"]


def functions(module: Any) -> set[str]:
    return {name for name, value in vars(module).items() if name[0] != "_" and callable(value)}


def test_every_function_of_os() -> None:
    left_out = {name for names in LEFT_OUT.values() for name in names.split()}
    provided = set(proactor.os.__all__)
    assert functions(os) - provided == left_out & functions(os)
    assert not left_out & provided


# Those of the functions that are there, and of open files.
CONSTANTS = ("POSIX_FADV_", "SEEK_", "ST_", "XATTR_")


def test_the_constants_that_go_with_them() -> None:
    names = {name for name in vars(os) if name.startswith(CONSTANTS)}
    names |= {"F_OK", "R_OK", "W_OK", "X_OK", "linesep", "name", *PARTS}
    assert names <= set(proactor.os.__all__)
    assert all(getattr(proactor.os, name) is getattr(os, name) for name in names)


def test_every_name_of_os_path() -> None:
    assert {name for name in os.path.__all__ if name != "ALLOW_MISSING"} == set(proactor.ospath.__all__)


def test_all_names_are_there() -> None:
    for module in (proactor.os, proactor.ospath):
        assert all(hasattr(module, name) for name in module.__all__)
    assert proactor.os.path is proactor.ospath


def shape(function: Any) -> list[tuple[str, Any, Any]]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # as `os.utime`'s, of which Python itself does not know it
        return []
    return [(one.name, one.kind, one.default) for one in parameters]


@pytest.mark.parametrize(("theirs", "ours"), [(os, proactor.os), (os.path, proactor.ospath)])
def test_the_same_arguments(theirs: Any, ours: Any) -> None:
    for name in set(ours.__all__) & functions(theirs):
        function, original = getattr(ours, name), getattr(theirs, name)
        if not isinstance(original, type):
            assert shape(function) == shape(original), name
            assert function is original or function.__module__.startswith("proactor."), name
            assert function.__doc__, name


def test_the_same_entries() -> None:
    """Of `os.DirEntry`: what it asks the file system is a coroutine."""
    for name in dir(os.DirEntry):
        if name[0] == "_" or isinstance(getattr(os.DirEntry, name), type(os.DirEntry.name)):
            assert hasattr(proactor.os.DirEntry, name), name
        else:
            ours, original = getattr(proactor.os.DirEntry, name), getattr(os.DirEntry, name)
            assert shape(ours)[1:] == shape(original)[1:], name
            assert name == "inode" or "coroutine" in ours.__doc__, name


def test_the_same_constants() -> None:
    for module, original in ((proactor.os, os), (proactor.ospath, os.path)):
        for name in module.__all__:
            value = getattr(module, name)
            if not callable(value) and name != "path":
                assert value is getattr(original, name), name
