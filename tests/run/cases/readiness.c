#include "common.h"

// Readiness

CASE(level) {
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1));
    wait_and_say("none", SHORT);
    put(b, "hello");
    wait_and_say("in", LONG);
    wait_and_say("still", LONG);
    say_read("part", a, 2);
    wait_and_say("rest", LONG);
    say_read("rest", a, 100);
    wait_and_say("empty", SHORT);
    say_read("nothing", a, 100);
}

CASE(edge) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 2);
    wait_and_say("none", SHORT);
    put(b, "hello");
    wait_and_say("edge", LONG);
    wait_and_say("no second", SHORT);
    say_read("part", a, 2);
    wait_and_say("no third", SHORT);
    put(b, "more");
    wait_and_say("new edge", LONG);
    say_read("all", a, 100);
    say_read("nothing", a, 100);
    wait_and_say("empty", SHORT);
}

CASE(edge_both) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT | EPOLLET, 3);
    wait_and_say("out", LONG);
    wait_and_say("no second", SHORT);
    put(b, "x");
    wait_and_say("both", LONG);
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
}

CASE(one_shot) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 4);
    put(b, "one");
    wait_and_say("shot", LONG);
    wait_and_say("fired", SHORT);
    put(b, "two");
    wait_and_say("fired still", SHORT);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT, 5));
    wait_and_say("again", LONG);
    say_read("all", a, 100);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT, 6));
    wait_and_say("none", SHORT);
}

CASE(one_shot_hup) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 4);
    put(b, "x");
    wait_and_say("shot", LONG);
    close(b);
    wait_and_say("fired", SHORT);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLRDHUP, 7);
    wait_and_say("again", LONG);
}

CASE(bytes_before_add) {
    put(b, "early");
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("in", LONG);
    say_read("read", a, 100);
}

CASE(bytes_before_add_edge) {
    put(b, "early");
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    wait_and_say("in", 0);
    wait_and_say("none", 0);
    say_read("read", a, 100);
}

CASE(read_without_wait) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    put(b, "direct");
    say_read("read", a, 100);
    wait_and_say("none", SHORT);
    put(b, "again");
    wait_and_say("in", LONG);
    say_read("read", a, 100);
    put(b, "third");
    say_read("third", a, 100);
    say_read("nothing", a, 100);
}

CASE(read_before_wait) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "never waited");
    say_read("read", a, 100);
    say_read("nothing", a, 100);
}

CASE(out_only) {
    ctl(EPOLL_CTL_ADD, a, EPOLLOUT, 1);
    wait_and_say("out", LONG);
    wait_and_say("still", LONG);
    put(b, "x");
    wait_and_say("not in", LONG);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN, 2));
    wait_and_say("in", LONG);
    say_read("read", a, 100);
}

CASE(no_interest) {
    ctl(EPOLL_CTL_ADD, a, 0, 9);
    put(b, "x");
    wait_and_say("none", SHORT);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN, 9);
    wait_and_say("in", LONG);
}

CASE(mod_rearms_edge) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    put(b, "x");
    wait_and_say("edge", LONG);
    wait_and_say("none", SHORT);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLET, 2);
    wait_and_say("edge again", LONG);
    wait_and_say("none", SHORT);
}

CASE(data_word) {
    ctl(EPOLL_CTL_ADD, a, EPOLLOUT, 0xfedcba9876543210ul);
    wait_and_say("data", LONG);
    ctl(EPOLL_CTL_MOD, a, EPOLLOUT, 17);
    wait_and_say("data", LONG);
}
