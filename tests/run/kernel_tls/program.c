// A server that has the kernel do TLS on a connection of its set, at the time that the argument says.
#include "../cases/common.h"

#include <sys/syscall.h>

#define TCP_ULP_NAME 31

static void start_tls(void) { SAY_CALL("TLS", setsockopt(a, IPPROTO_TCP, TCP_ULP_NAME, "tls", 4)); }

// Asks the kernel itself, past the library.
static void say_kernel(const char *what) {
    char bytes[20];
    say_bytes(what, syscall(SYS_recvfrom, a, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT, 0, 0), bytes);
}

CASE(before_the_set) {
    start_tls();
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", SHORT);
    put(b, "record");
    wait_and_say("in", LONG);
    say_kernel("kernel");
    say_read("read", a, 10);
}

CASE(in_the_set) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "handshake");
    wait_and_say("in", LONG);
    say_read("read", a, 20);
    start_tls();
    for (int i = 0; i < 2; i++) {
        wait_and_say("none", SHORT);
        put(b, "record");
        wait_and_say("in", LONG);
        say_kernel("kernel");
        say_read("read", a, 20);
    }
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2));
    wait_and_say("none", SHORT);
    put(b, "record");
    wait_and_say("in", LONG);
    say_kernel("kernel");
}

CASE(after_a_batch) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    say_read("read", a, 10);
    SAY_CALL("write", write(a, "in clear", 8));
    // What was written before must be sent before.
    start_tls();
    say_peer("peer");
    end_batch();
}

CASE(with_unread_bytes) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "record");
    wait_and_say("in", LONG);
    start_tls();
    say_read("part", a, 3);
    start_tls();
    say_read("rest", a, 3);
    start_tls();
    put(b, "record");
    wait_and_say("in", LONG);
    say_kernel("kernel");
}
