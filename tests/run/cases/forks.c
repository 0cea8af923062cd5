#include "common.h"

CASE(forked) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abcdef");
    wait_and_say("in", LONG);
    say_read("one", a, 1);
    pid_t child = fork();
    if (!child) {
        say_read("child", a, 2);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, 0, 0);
    say_read("parent", a, 2);
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
    put(b, "ghi");
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
}

CASE(forked_without_memory) {
    // Each byte goes to one of the processes, also where there is no memory that they could share.
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    struct rlimit before, none;
    CHECK(!getrlimit(RLIMIT_AS, &before));
    none = before;
    none.rlim_cur = 1;
    CHECK(!setrlimit(RLIMIT_AS, &none));
    char bytes[10];
    pid_t child = fork();
    if (!child) {
        ssize_t got = read(a, bytes, 10);
        _exit(got > 0 ? (int)got : 0);
    }
    CHECK(!setrlimit(RLIMIT_AS, &before));
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    ssize_t got = read(a, bytes, 10);
    SAY("%zd bytes", WEXITSTATUS(status) + (got > 0 ? got : 0));
}

CASE(forked_waits) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    pid_t child = fork();
    if (!child) {
        wait_and_say("child", LONG);
        say_read("child", a, 10);
        fflush(stdout);
        _exit(0);
    }
    put(b, "abc");
    waitpid(child, 0, 0);
    wait_and_say("none", SHORT);
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
}

CASE(forked_closes) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    pid_t child = fork();
    if (!child) {
        close(a);
        close(ep);
        _exit(0);
    }
    waitpid(child, 0, 0);
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
    put(a, "reply");
    say_peer("peer");
}

CASE(forked_executes) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("system %d", system("true"));
    say_read("read", a, 10);
    put(b, "def");
    wait_and_say("in", LONG);
}

CASE(vfork_closes) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    pid_t child = vfork();
    if (!child) {
        close(a);
        close(ep);
        close(b);
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    waitpid(child, 0, 0);
    say_read("parent", a, 10);
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
}
