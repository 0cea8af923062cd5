#include "common.h"

// Edges of a set that is handed back while bytes of its socket lie in memory

static int outer;

static void nest(void) {
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 8};
    outer = epoll_create1(0);
    SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, ep, &event));
}

// Leaves three bytes in memory, which are told with room if there is interest in it.
static void begin_with(unsigned events) {
    ctl(EPOLL_CTL_ADD, a, events, 1);
    put(b, "abc");
    wait_and_say("told", LONG);
}

static void fill(void) {
    static char bytes[65536];
    while (send(a, bytes, sizeof bytes, 0) > 0);
    SAY("full %d", errno == EAGAIN);
}

static void empty(void) {
    static char bytes[65536];
    struct pollfd entry = {.fd = b, .events = POLLIN};
    while (poll(&entry, 1, 200) > 0 && recv(b, bytes, sizeof bytes, MSG_DONTWAIT) > 0);
}

CASE(edge_of_both_is_told_once) {
    begin_with(EPOLLIN | EPOLLOUT | EPOLLET);
    wait_and_say("none", SHORT);
    nest();
    wait_and_say("none", SHORT);
    wait_and_say("none again", 0);
    put(b, "def");
    wait_and_say("more bytes", LONG);
    wait_and_say("none", SHORT);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLOUT | EPOLLET, 2));
    wait_and_say("armed anew", LONG);
    wait_and_say("none", SHORT);
    close(outer);
}

CASE(edge_of_room_is_told_once) {
    ctl(EPOLL_CTL_ADD, a, EPOLLOUT | EPOLLET, 1);
    wait_and_say("room", LONG);
    put(b, "abc");
    wait_and_say("none", SHORT);
    nest();
    wait_and_say("none", SHORT);
    wait_and_say("none again", 0);
    close(outer);
}

CASE(edge_that_was_not_told) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT | EPOLLET, 1);
    wait_and_say("room", LONG);
    put(b, "abc");
    struct pollfd entry = {.fd = ep, .events = POLLIN};
    SAY("poll %d", poll(&entry, 1, LONG));
    wait_and_say("bytes", LONG);
    wait_and_say("none", SHORT);
    wait_and_say("none again", 0);
}

CASE(edge_of_room_that_comes_later) {
    begin_with(EPOLLIN | EPOLLOUT | EPOLLET);
    nest();
    fill();
    wait_and_say("none", SHORT);
    empty();
    wait_and_say("room", LONG);
    wait_and_say("none", SHORT);
    close(outer);
}

CASE(edge_of_room_that_came_before) {
    begin_with(EPOLLIN | EPOLLOUT | EPOLLET);
    fill();
    wait_and_say("none", SHORT);
    nest();
    wait_and_say("none", SHORT);
    empty();
    wait_and_say("room", LONG);
    wait_and_say("none", SHORT);
    close(outer);
}

CASE(level_of_room) {
    begin_with(EPOLLIN | EPOLLOUT);
    nest();
    wait_and_say("both", LONG);
    fill();
    wait_and_say("bytes", LONG);
    empty();
    wait_and_say("both", LONG);
    close(outer);
}

CASE(edge_of_room_when_all_is_read) {
    begin_with(EPOLLIN | EPOLLOUT | EPOLLET);
    nest();
    wait_and_say("none", SHORT);
    say_read("read", a, 10);
    // The real set tells of room once more.
    epoll_wait(ep, &(struct epoll_event){0}, 1, SHORT);
    wait_and_say("none", SHORT);
    put(b, "def");
    wait_and_say("more bytes", LONG);
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
    fill();
    wait_and_say("none", SHORT);
    empty();
    wait_and_say("room", LONG);
    wait_and_say("none", SHORT);
    close(outer);
}
