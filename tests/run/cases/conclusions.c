#include "common.h"

// What a program concludes from readiness and from counts, of a socket with more bytes than are received ahead of it.

enum { ALL = 150000 };

static char sent[ALL], got[2 * ALL];

// All bytes have reached the socket's side, and nobody has read: some are in the kernel.
static void stall(unsigned flags) {
    int size = 4 * ALL, arrived = 0;
    for (size_t i = 0; i < ALL; i++) sent[i] = (char)(i * 7 + i / 251);
    CHECK(!setsockopt(a, SOL_SOCKET, SO_RCVBUF, &size, sizeof size));
    CHECK(!setsockopt(b, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | flags, 1);
    wait_and_say("none", 0);
    CHECK(send(b, sent, ALL, 0) == ALL);
    for (int i = 0; i < 500 && arrived < ALL; i++) {
        CHECK(!ioctl(a, FIONREAD, &arrived));
        usleep(1000);
    }
    SAY("arrived %d", arrived);
    wait_and_say("in", LONG);
    CHECK(!ioctl(a, FIONREAD, &arrived));
    SAY("arrived %d", arrived);
}

static const char *check(size_t total) { return memcmp(sent, got, total) ? "wrong" : "right"; }

// Whoever has read until there is nothing waits for what comes next.
static void next_is_told(unsigned flags) {
    if (flags & EPOLLONESHOT) SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | flags, 2));
    wait_and_say("none", SHORT);
    put(b, "next");
    wait_and_say("next", LONG);
    say_read("next", a, 10);
    if (flags & EPOLLONESHOT) SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | flags, 3));
    wait_and_say("none", SHORT);
}

static void read_to_the_end(unsigned flags, size_t each) {
    size_t total = 0;
    ssize_t count;
    stall(flags);
    while ((count = read(a, got + total, each)) > 0) total += (size_t)count;
    SAY("%s after %zu, %s", strerror(errno), total, check(total));
    next_is_told(flags);
}

CASE(stalled_then_read_level) { read_to_the_end(0, 5000); }
CASE(stalled_then_read_edge) { read_to_the_end(EPOLLET, 5000); }
CASE(stalled_then_read_one_shot) { read_to_the_end(EPOLLONESHOT, 5000); }
CASE(stalled_then_read_at_once) { read_to_the_end(EPOLLET, sizeof got); }

// A short count says that there is nothing more.
static void read_until_short(unsigned flags, size_t first) {
    size_t total = 0;
    ssize_t count, room;
    stall(flags);
    do {
        struct iovec places[3] = {{got + total, first}, {got + total + first, 1}, {got + total + first + 1, 9999}};
        room = (ssize_t)first + 10000;
        if ((count = readv(a, places, 3)) > 0) total += (size_t)count;
    } while (count == room);
    SAY("short after %zu, %s", total, check(total));
    next_is_told(flags);
}

CASE(stalled_then_short_readv) { read_until_short(EPOLLET, 3000); }
CASE(stalled_then_one_readv) { read_until_short(EPOLLET, ALL - 5000); }

CASE(stalled_then_short_recvmsg) {
    struct iovec places[2] = {{got, 4000}, {got + 4000, sizeof got - 4000}};
    struct msghdr message = {.msg_iov = places, .msg_iovlen = 2};
    stall(EPOLLET);
    SAY_CALL("recvmsg", recvmsg(a, &message, 0));
    SAY("%s", check(ALL));
    next_is_told(EPOLLET);
}

// Who waits for a whole message may look for it without taking it.
CASE(stalled_then_peek) {
    stall(0);
    SAY_CALL("peek", recv(a, got, sizeof got, MSG_PEEK));
    SAY("%s", check(ALL));
    memset(got, 0, sizeof got);
    SAY_CALL("again", recv(a, got, ALL - 1, MSG_PEEK));
    SAY("%s", check(ALL - 1));
    memset(got, 0, sizeof got);
    SAY_CALL("read", recv(a, got, sizeof got, 0));
    SAY("%s", check(ALL));
    next_is_told(0);
}

CASE(stalled_then_dropped) {
    stall(0);
    SAY_CALL("dropped", recv(a, 0, ALL - 10, MSG_TRUNC));
    SAY_CALL("rest", recv(a, got, sizeof got, 0));
    SAY("%s", memcmp(sent + ALL - 10, got, 10) ? "wrong" : "right");
    next_is_told(0);
}

// Fewer bytes than were asked for are not told of.
CASE(stalled_below_low_water) {
    int low = ALL + 4;
    stall(0);
    CHECK(!setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low));
    wait_and_say("too few", SHORT);
    put(b, "next");
    wait_and_say("enough", LONG);
    SAY_CALL("part", recv(a, got, 4, 0));
    wait_and_say("too few", SHORT);
    put(b, "more");
    wait_and_say("enough", LONG);
    SAY_CALL("read", recv(a, got + 4, sizeof got - 4, 0));
    SAY("%s", check(ALL));
    wait_and_say("none", SHORT);
}

// Both sides have ended, which is told before all bytes are read.
CASE(stalled_then_hung_up) {
    stall(EPOLLET | EPOLLRDHUP);
    shutdown(b, SHUT_WR);
    shutdown(a, SHUT_WR);
    usleep(20000);
    wait_and_say("hung up", LONG);
    SAY_CALL("read", read(a, got, sizeof got));
    SAY("%s", check(ALL));
    SAY_CALL("end", read(a, got, sizeof got));
}

CASE(stalled_then_hung_up_pieces) {
    struct iovec places[2] = {{got, 4000}, {got + 4000, sizeof got - 4000}};
    stall(EPOLLET | EPOLLRDHUP);
    shutdown(b, SHUT_WR);
    shutdown(a, SHUT_WR);
    usleep(20000);
    wait_and_say("hung up", LONG);
    SAY_CALL("readv", readv(a, places, 2));
    SAY("%s", check(ALL));
    SAY_CALL("end", read(a, got, sizeof got));
}

CASE(stalled_then_reset) {
    stall(EPOLLET);
    reset(b);
    b = -1;
    usleep(20000);
    wait_and_say("reset", LONG);
    SAY_CALL("read", read(a, got, sizeof got));
    SAY("%s", check(ALL));
    SAY_CALL("error", read(a, got, sizeof got));
    SAY_CALL("end", read(a, got, sizeof got));
}

CASE(stalled_then_end) {
    size_t total = 0;
    ssize_t count;
    stall(EPOLLET | EPOLLRDHUP);
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("end", LONG);
    while ((count = read(a, got + total, 7000)) > 0) total += (size_t)count;
    SAY("%zd after %zu, %s", count, total, check(total));
}

// Nobody reads 150 connections, which have more together than all buffers hold: others are served all the same.
CASE(stalled_many) {
    enum { COUNT = 150 };
    int here[COUNT], there[COUNT], size = 4 * 65536;
    struct rlimit limit;
    CHECK(!getrlimit(RLIMIT_NOFILE, &limit));
    if (limit.rlim_cur < 3 * COUNT) limit.rlim_cur = 3 * COUNT, CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
    for (int i = 0; i < COUNT; i++) {
        pair_of(&here[i], &there[i]);
        CHECK(!setsockopt(there[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
        ctl(EPOLL_CTL_ADD, here[i], EPOLLIN | EPOLLET, 10);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK(send(there[i], sent, 65536, 0) == 65536);
        epoll_wait(ep, &(struct epoll_event){0}, 1, 0);
    }
    for (int i = 0; i < 10; i++) {
        struct epoll_event events[COUNT];
        while (epoll_wait(ep, events, COUNT, 5) > 0) {}
    }
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    put(b, "served");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    for (int i = 0; i < COUNT; i++) close(here[i]), close(there[i]);
    put(b, "still");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
}
