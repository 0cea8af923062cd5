#include "common.h"

// A forked process inherits what waits to be sent, and shots that are fired: each is the parent's alone.

static int gate[2];  // a child waits until the parent writes a byte

static void wait_at_gate(void) {
    char byte;
    CHECK(read(gate[0], &byte, 1) == 1);
}

static pid_t fork_at_gate(void (*in_child)(void)) {
    CHECK(!pipe(gate));
    pid_t child = fork();
    if (child) return child;
    wait_at_gate();
    in_child();
    exit(0);
}

static void end_child(pid_t child) {
    int status;
    CHECK(write(gate[1], "x", 1) == 1);
    CHECK(waitpid(child, &status, 0) == child);
    SAY("status %d", WEXITSTATUS(status));
    close(gate[0]), close(gate[1]);
}

static void wait_a_little(void) {
    for (int i = 0; i < 20; i++) epoll_wait(ep, &(struct epoll_event){0}, 1, 0), usleep(2000);
}

// More is written than the kernel takes; the rest waits for the peer.
static ssize_t fill(void) {
    static char bytes[10000];
    int size = 4096;
    ssize_t got, total = 0;
    setsockopt(a, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(b, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    say_read("read", a, 1);
    while (total < 60000 && (got = send(a, bytes, sizeof bytes, MSG_NOSIGNAL)) > 0) total += got;
    fcntl(b, F_SETFL, O_NONBLOCK);
    return total;
}

// Reads what comes, until all has come and then nothing for a while. True: up to the end.
static int drain(ssize_t *left) {
    char bytes[4096];
    for (int idle = 0; idle < (*left > 0 ? 5000 : 50);) {
        ssize_t got = recv(b, bytes, sizeof bytes, 0);
        if (got > 0) *left -= got, idle = 0;
        if (got == 0) return 1;
        if (got < 0) idle++, epoll_wait(ep, &(struct epoll_event){0}, 1, 0), usleep(2000);
    }
    return 0;
}

static void queue_of_a_parent(int shuts) {
    ssize_t left = fill();
    if (shuts) SAY_CALL("shutdown", shutdown(a, SHUT_WR));
    pid_t child = fork_at_gate(wait_a_little);
    // A child that sent it as well would do so when there is room, one that ended it while the parent still has some.
    if (!shuts) drain(&left);
    end_child(child);
    int ended = drain(&left);
    SAY("%zd left, %s", left, ended ? "ended" : "open");
    end_batch();
}

CASE(inherited_queue) { queue_of_a_parent(0); }
CASE(inherited_end) { queue_of_a_parent(1); }

CASE(shot_fired_before_a_fork) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 1);
    put(b, "abc");
    wait_and_say("shot", LONG);
    say_read("read", a, 10);
    pid_t child = fork_at_gate(wait_at_gate);
    wait_a_little();
    put(b, "def");
    wait_and_say("none", SHORT);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT, 2));
    wait_and_say("shot", LONG);
    say_read("read", a, 10);
    CHECK(write(gate[1], "x", 1) == 1);
    end_child(child);
}

CASE(shot_fired_beside_a_child) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 1);
    wait_and_say("none", 0);
    pid_t child = fork_at_gate(wait_at_gate);
    wait_a_little();
    put(b, "abc");
    wait_and_say("shot", LONG);
    say_read("read", a, 10);
    CHECK(write(gate[1], "x", 1) == 1);
    end_child(child);
    // Long enough for the socket to return to where it was.
    for (int i = 0; i < 5; i++) wait_a_little();
    put(b, "def");
    wait_and_say("none", SHORT);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT, 2));
    wait_and_say("shot", LONG);
    say_read("read", a, 10);
}

CASE(shot_fired_with_bytes_before_a_fork) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 1);
    put(b, "abc");
    wait_and_say("shot", LONG);
    pid_t child = fork_at_gate(wait_at_gate);
    CHECK(write(gate[1], "x", 1) == 1);
    end_child(child);
    for (int i = 0; i < 5; i++) wait_a_little();
    say_read("read", a, 10);
    wait_a_little();
    put(b, "def");
    wait_and_say("none", SHORT);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT, 2));
    wait_and_say("shot", LONG);
    say_read("read", a, 10);
}

CASE(shut_before_a_fork) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY_CALL("shutdown", shutdown(a, SHUT_WR));
    pid_t child = fork_at_gate(wait_at_gate);
    CHECK(write(gate[1], "x", 1) == 1);
    end_child(child);
    for (int i = 0; i < 5; i++) wait_a_little();
    put(b, "x");
    make_batch();
    SAY_CALL("write", send(a, "abc", 3, MSG_NOSIGNAL));
    say_read("read", a, 10);
    end_batch();
}

CASE(inherited_by_a_program) {
    // The descriptor itself is left open on exec.
    char number[20];
    sprintf(number, "%d", a);
    CHECK(!pipe(gate));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    pid_t child = fork();
    if (!child) {
        CHECK(dup2(gate[0], 0) == 0);
        setenv("CONNECTION", number, 1);
        execlp("sh", "sh", "-c", "head -c 1 >/dev/null; head -c 3 <&$CONNECTION", (char *)0);
        _exit(1);
    }
    for (int i = 0; i < 5; i++) wait_a_little();
    put(b, "abcdef");
    wait_and_say("in", LONG);
    end_child(child);
    puts("");
    for (int i = 0; i < 5; i++) wait_a_little();
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
}
