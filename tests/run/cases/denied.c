#include "common.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

// A ring that cannot be used any more: a filter that a program loads after its start (a sandbox) refuses the call.

#ifndef SYS_io_uring_enter
#define SYS_io_uring_enter 426
#endif

static void deny(int call) {
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
    // Where there are no filters nothing is refused, and the output is the same.
    if (!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static void in_a_sandbox(void (*run)(void)) {
    int gate[2];
    char byte;
    CHECK(!pipe(gate));
    pid_t child = fork();
    if (!child) {
        CHECK((ep = epoll_create1(0)) >= 0);
        CHECK(read(gate[0], &byte, 1) == 1);
        run();
        exit(0);
    }
    // The child alone has the connection.
    close(a), close(b);
    a = b = -1;
    CHECK(write(gate[1], "x", 1) == 1);
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAY("status %d", WEXITSTATUS(status));
    close(gate[0]), close(gate[1]);
}

static void received(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("part", a, 1);
    deny(SYS_io_uring_enter);
    put(b, "def");
    wait_and_say("in", LONG);
    char bytes[10];
    size_t total = 0;
    for (ssize_t got; (got = read(a, bytes + total, 10 - total)) > 0;) total += (size_t)got;
    say_bytes("rest", (ssize_t)total, bytes);
    wait_and_say("none", SHORT);
    put(b, "ghi");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
}

CASE(sandboxed_with_bytes) { in_a_sandbox(received); }

static void sent(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY_CALL("write", write(a, "abc", 3));
    deny(SYS_io_uring_enter);
    wait_and_say("in", LONG);
    say_peer("peer");
    SAY_CALL("write", write(a, "def", 3));
    wait_and_say("in", LONG);
    say_peer("peer");
}

CASE(sandboxed_with_a_queue) { in_a_sandbox(sent); }

static void closed(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    deny(SYS_io_uring_enter);
    put(b, "abc");
    close(a);
    wait_and_say("none", SHORT);
    pair_of(&a, &b);
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2)));
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
}

CASE(sandboxed_before_a_close) { in_a_sandbox(closed); }
