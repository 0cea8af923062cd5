#include "common.h"

// poll and select on a socket of a set.

static int ask(int events, int timeout) {
    struct pollfd entry = {.fd = a, .events = (short)events};
    int count = poll(&entry, 1, timeout);
    return count < 0 ? -1 : entry.revents;
}

CASE(polled_at_the_end) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("in", LONG);
    SAY("poll %x", (unsigned)ask(POLLIN | POLLOUT | POLLRDHUP, LONG));
    say_read("bytes", a, 10);
    SAY("poll %x", (unsigned)ask(POLLIN | POLLOUT | POLLRDHUP, LONG));
    say_read("end", a, 10);
    wait_and_say("in", LONG);
}

CASE(polled_after_a_reset) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    reset(b);
    b = -1;
    wait_and_say("reset", LONG);
    SAY("poll %x", (unsigned)ask(POLLIN | POLLOUT, LONG));
    SAY("poll %x", (unsigned)ask(0, 0));
    say_read("error", a, 10);
    SAY("poll %x", (unsigned)ask(POLLIN | POLLOUT, LONG));
    wait_and_say("after", LONG);
}

CASE(polled_for_other_conditions) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("none %x", (unsigned)ask(0, 0));
    SAY("out %x", (unsigned)ask(POLLOUT, 0));
    SAY("other names %x", (unsigned)ask(POLLRDNORM | POLLWRNORM | POLLRDBAND | POLLPRI, 0));
    SAY("in %x", (unsigned)ask(POLLIN | POLLRDNORM, 0));
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    SAY("none %x", (unsigned)ask(POLLIN, SHORT));
}

CASE(polled_among_others) {
    int pipes[2];
    CHECK(!pipe(pipes));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    struct pollfd entries[4] = {{.fd = pipes[0], .events = POLLIN},
                                {.fd = a, .events = POLLIN},
                                {.fd = -1, .events = POLLIN},
                                {.fd = pipes[1], .events = POLLOUT}};
    SAY_CALL("poll", poll(entries, 4, LONG));
    SAY("%x %x %x %x", entries[0].revents, entries[1].revents, entries[2].revents, entries[3].revents);
    SAY_CALL("ppoll", ppoll(entries, 3, &(struct timespec){2, 0}, 0));
    SAY("%x %x %x", entries[0].revents, entries[1].revents, entries[2].revents);
    entries[1].fd = 999;
    SAY_CALL("nothing there", poll(entries, 3, LONG));
    SAY("%x %x %x", entries[0].revents, entries[1].revents, entries[2].revents);
    SAY_CALL("no entries", poll(0, 1, 0));
    close(pipes[0]), close(pipes[1]);
}

CASE(polled_by_a_mask) {
    sigset_t all;
    struct pollfd entry = {.fd = a, .events = POLLIN};
    sigfillset(&all);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY_CALL("ppoll", ppoll(&entry, 1, &(struct timespec){0, 1000000}, &all));
    put(b, "abc");
    SAY_CALL("ppoll", ppoll(&entry, 1, 0, &all));
    SAY_CALL("bad time", ppoll(&entry, 1, &(struct timespec){0, -1}, &all));
    say_read("read", a, 10);
}

CASE(polled_for_room) {
    static char bytes[65536];
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT, 1);
    wait_and_say("out", LONG);
    while (send(a, bytes, sizeof bytes, MSG_NOSIGNAL) > 0) {}
    SAY("full %x", (unsigned)ask(POLLIN | POLLOUT, SHORT));
    wait_and_say("none", SHORT);
    fcntl(b, F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 200 && ask(POLLOUT, 0) == 0; i++) {
        while (recv(b, bytes, sizeof bytes, 0) > 0) {}
        usleep(1000);
    }
    SAY("room %x", (unsigned)ask(POLLIN | POLLOUT, LONG));
    wait_and_say("out", LONG);
}

CASE(selected_all) {
    fd_set r, w, e;
    struct timeval time = {2, 0};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_ZERO(&e);
    FD_SET(a, &r), FD_SET(a, &w), FD_SET(a, &e);
    SAY_CALL("select", select(a + 1, &r, &w, &e, &time));
    SAY("%d %d %d", !!FD_ISSET(a, &r), !!FD_ISSET(a, &w), !!FD_ISSET(a, &e));
    FD_ZERO(&r);
    FD_SET(a, &r);
    SAY_CALL("pselect", pselect(a + 1, &r, 0, 0, &(struct timespec){2, 0}, 0));
    say_read("read", a, 10);
    FD_SET(a, &r);
    SAY_CALL("nothing", pselect(a + 1, &r, 0, 0, &(struct timespec){0, 1000000}, 0));
    SAY("%d", !!FD_ISSET(a, &r));
    SAY_CALL("negative", select(-1, &r, 0, 0, &time));
    FD_SET(a, &r);
    put(b, "def");
    SAY_CALL("for ever", select(a + 1, &r, 0, 0, 0));
    wait_and_say("in", LONG);
}

CASE(selected_after_a_reset) {
    fd_set r, w, e;
    struct timeval time = {2, 0};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    reset(b);
    b = -1;
    wait_and_say("reset", LONG);
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_ZERO(&e);
    FD_SET(a, &r), FD_SET(a, &w), FD_SET(a, &e);
    SAY_CALL("select", select(a + 1, &r, &w, &e, &time));
    SAY("%d %d %d", !!FD_ISSET(a, &r), !!FD_ISSET(a, &w), !!FD_ISSET(a, &e));
    say_read("error", a, 10);
}

CASE(set_polled_with_bytes) {
    struct pollfd entry = {.fd = ep, .events = POLLIN};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("poll %d", poll(&entry, 1, LONG));
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    SAY("poll %d", poll(&entry, 1, SHORT));
    put(b, "def");
    SAY("poll %d", poll(&entry, 1, LONG));
    wait_and_say("in", LONG);
}

CASE(set_selected_with_bytes) {
    fd_set r;
    struct timeval time = {2, 0};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    FD_ZERO(&r);
    FD_SET(ep, &r);
    SAY_CALL("select", select(ep + 1, &r, 0, 0, &time));
    wait_and_say("in", LONG);
}

CASE(nested_with_bytes) {
    int outer = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 8};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, ep, &event));
    SAY("outer %d", epoll_wait(outer, &event, 1, LONG));
    wait_and_say("inner", LONG);
    say_read("read", a, 10);
    SAY("outer %d", epoll_wait(outer, &event, 1, SHORT));
    put(b, "def");
    SAY("outer %d", epoll_wait(outer, &event, 1, LONG));
    wait_and_say("inner", LONG);
    close(outer);
}

CASE(nested_beside_a_socket) {
    // The outer set has a socket of its own.
    int outer = epoll_create1(0), c, d;
    struct epoll_event events[4], event = {.events = EPOLLIN, .data.u64 = 8};
    pair_of(&c, &d);
    SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, c, &event));
    event.data.u64 = 9;
    SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, ep, &event));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    SAY("outer %d", epoll_wait(outer, events, 4, SHORT));
    put(b, "abc");
    SAY("outer %d", epoll_wait(outer, events, 4, LONG));
    wait_and_say("inner", LONG);
    say_read("read", a, 10);
    put(d, "abc");
    int count = epoll_wait(outer, events, 4, LONG);
    SAY("outer %d %lu", count, (unsigned long)events[0].data.u64);
    say_read("read", c, 10);
    close(c), close(d);
    close(outer);
}
