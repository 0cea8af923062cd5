#include "common.h"

// More than one set, and what a set is asked.

static int other;  // another set

static void wait_other(const char *what, int timeout) {
    int first = ep;
    ep = other;
    wait_and_say(what, timeout);
    ep = first;
}

static int ctl_other(int op, int fd, unsigned events, unsigned long data) {
    struct epoll_event event = {.events = events, .data.u64 = data};
    return epoll_ctl(other, op, fd, &event) ? errno : 0;
}

CASE(moved_with_bytes) {
    other = epoll_create1(0);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    SAY("add %d", ctl_other(EPOLL_CTL_ADD, a, EPOLLIN, 2));
    wait_and_say("none", 0);
    wait_other("in", LONG);
    say_read("read", a, 2);
    wait_other("in", LONG);
    say_read("read", a, 10);
    wait_other("none", SHORT);
    put(b, "def");
    wait_other("in", LONG);
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
    close(other);
}

CASE(moved_after_a_shot) {
    other = epoll_create1(0);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    SAY("add %d", ctl_other(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 2));
    wait_other("in", LONG);
    wait_other("none", SHORT);
    say_read("read", a, 10);
    close(other);
}

CASE(moved_without_bytes) {
    other = epoll_create1(0);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    SAY("add %d", ctl_other(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 2));
    put(b, "def");
    wait_other("in", LONG);
    wait_other("none", SHORT);
    say_read("read", a, 10);
    SAY("del %d", ctl_other(EPOLL_CTL_DEL, a, 0, 0));
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 3));
    put(b, "ghi");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    close(other);
}

CASE(moved_at_the_end) {
    other = epoll_create1(0);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("in", LONG);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    SAY("add %d", ctl_other(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 2));
    wait_other("in", LONG);
    say_read("read", a, 10);
    wait_other("end", LONG);
    say_read("end", a, 10);
    wait_other("end", LONG);
    close(other);
}

CASE(moved_by_a_reset) {
    other = epoll_create1(0);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    reset(b);
    wait_and_say("reset", LONG);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    SAY("add %d", ctl_other(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 2));
    wait_other("reset", LONG);
    say_read("error", a, 10);
    say_read("end", a, 10);
    close(other);
    b = -1;
}

CASE(two_sets_after_a_part) {
    other = epoll_create1(0);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("add %d", ctl_other(EPOLL_CTL_ADD, a, EPOLLIN, 2));
    wait_and_say("in", LONG);
    say_read("part", a, 1);
    wait_and_say("in", LONG);
    say_read("rest", a, 10);
    wait_other("none", SHORT);
    wait_and_say("none", SHORT);
    put(b, "def");
    wait_other("in", LONG);
    wait_and_say("in", LONG);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    wait_and_say("none", SHORT);
    wait_other("in", LONG);
    close(other);
}

CASE(two_sets_by_direction) {
    other = epoll_create1(0);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    SAY("add %d", ctl_other(EPOLL_CTL_ADD, a, EPOLLOUT, 2));
    wait_other("out", LONG);
    put(b, "abc");
    wait_and_say("in", LONG);
    put(a, "reply");
    say_peer("peer");
    wait_other("out", LONG);
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
    close(other);
}

CASE(set_closed_before_its_sockets) {
    int c, d;
    pair_of(&c, &d);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    ctl(EPOLL_CTL_ADD, c, EPOLLIN, 2);
    put(b, "abc");
    wait_and_say("in", LONG);
    close(ep);
    SAY_CALL("wait", epoll_wait(ep, &(struct epoll_event){0}, 1, 0));
    put(c, "to the peer");
    char bytes[20];
    say_bytes("peer", recv(d, bytes, 20, 0), bytes);
    say_read("memory", a, 10);
    put(d, "def");
    usleep(1000);
    say_read("kernel", c, 10);
    close(a);
    say_peer("end");
    shutdown(d, SHUT_WR);
    usleep(20000);
    say_read("end", c, 10);
    close(c), close(d);
    a = -1;
    CHECK((ep = epoll_create1(0)) >= 0);
}

CASE(set_closed_with_bytes_of_many) {
    int one[4], two[4];
    for (int i = 0; i < 4; i++) {
        pair_of(&one[i], &two[i]);
        ctl(EPOLL_CTL_ADD, one[i], EPOLLIN | EPOLLET, 1);
        put(two[i], "abc");
    }
    for (int i = 0, seen = 0; i < 100 && seen < 4; i++)
        seen += epoll_wait(ep, (struct epoll_event[4]){0}, 4, LONG);
    close(ep);
    CHECK((ep = epoll_create1(0)) >= 0);
    wait_and_say("none", 0);
    for (int i = 0; i < 4; i++) SAY("add %d", ctl(EPOLL_CTL_ADD, one[i], EPOLLIN, 9));
    wait_and_say("all", LONG);
    for (int i = 0; i < 4; i++) {
        say_read("read", one[i], 10);
        close(one[i]), close(two[i]);
    }
}

CASE(more_room_than_events) {
    enum { ROOM = 4096 };
    static struct epoll_event events[ROOM];
    int one[20], two[20], seen = 0;
    for (int i = 0; i < 20; i++) {
        pair_of(&one[i], &two[i]);
        ctl(EPOLL_CTL_ADD, one[i], EPOLLIN, (unsigned)i);
        put(two[i], "x");
    }
    usleep(1000);
    int count = 0;
    for (int i = 0; i < 100 && count < 20; i++) count = epoll_wait(ep, events, ROOM, LONG);
    for (int i = 0; i < count; i++) seen |= 1 << events[i].data.u64;
    SAY("%d events, %s", count, seen == (1 << 20) - 1 ? "each once" : "not each");
    SAY_CALL("more than there can be", epoll_wait(ep, events, 0x7fffffff, 0));
    for (int i = 0; i < 20; i++) close(one[i]), close(two[i]);
}

CASE(each_has_its_turn) {
    int one[10], two[10], seen[10] = {0};
    for (int i = 0; i < 10; i++) {
        pair_of(&one[i], &two[i]);
        ctl(EPOLL_CTL_ADD, one[i], EPOLLIN, (unsigned)i);
        put(two[i], "x");
    }
    usleep(1000);
    for (int i = 0; i < 60; i++) {
        struct epoll_event events[3];
        int count = epoll_wait(ep, events, 3, LONG);
        for (int k = 0; k < count; k++) seen[events[k].data.u64]++;
    }
    int least = 1000;
    for (int i = 0; i < 10; i++) least = seen[i] < least ? seen[i] : least;
    SAY("least %s", least >= 10 ? "enough" : "too few");
    for (int i = 0; i < 10; i++) close(one[i]), close(two[i]);
}

CASE(no_room_for_events) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    SAY_CALL("nothing", epoll_wait(ep, 0, 8, 0));
    put(b, "abc");
    SAY_CALL("null", epoll_wait(ep, 0, 8, LONG));
    wait_and_say("in", LONG);
    wait_and_say("none", SHORT);
}

CASE(bad_sets) {
    struct epoll_event event = {.events = EPOLLIN};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY_CALL("wait on a socket", epoll_wait(a, &event, 1, 0));
    SAY_CALL("wait on nothing", epoll_wait(-1, &event, 1, 0));
    SAY_CALL("pwait on nothing", epoll_pwait(999, &event, 1, 0, 0));
    SAY_CALL("ctl of a socket", epoll_ctl(a, EPOLL_CTL_ADD, b, &event));
    SAY_CALL("ctl of itself", epoll_ctl(a, EPOLL_CTL_ADD, a, &event));
    SAY_CALL("ctl of nothing", epoll_ctl(-1, EPOLL_CTL_ADD, a, &event));
    SAY_CALL("add twice", epoll_ctl(ep, EPOLL_CTL_ADD, a, &event));
    SAY_CALL("read of a set", read(ep, &event, 1));
    SAY_CALL("write to a set", write(ep, &event, 1));
}

CASE(errors_in_their_order) {
    struct epoll_event in = {.events = EPOLLIN}, exclusive = {.events = EPOLLIN | EPOLLEXCLUSIVE},
                       not_exclusive = {.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT},
                       wakeup = {.events = EPOLLIN | EPOLLWAKEUP};
    SAY_CALL("mod before", epoll_ctl(ep, EPOLL_CTL_MOD, a, &exclusive));
    SAY_CALL("add", epoll_ctl(ep, EPOLL_CTL_ADD, a, &in));
    SAY_CALL("add without event", epoll_ctl(ep, EPOLL_CTL_ADD, a, 0));
    SAY_CALL("bad op without event", epoll_ctl(ep, 77, a, 0));
    SAY_CALL("bad op", epoll_ctl(ep, 77, a, &in));
    SAY_CALL("add exclusive", epoll_ctl(ep, EPOLL_CTL_ADD, a, &exclusive));
    SAY_CALL("add what cannot be", epoll_ctl(ep, EPOLL_CTL_ADD, a, &not_exclusive));
    SAY_CALL("mod to exclusive", epoll_ctl(ep, EPOLL_CTL_MOD, a, &exclusive));
    SAY_CALL("mod to wakeup", epoll_ctl(ep, EPOLL_CTL_MOD, a, &wakeup));
    put(b, "x");
    wait_and_say("in", LONG);
    SAY_CALL("del", epoll_ctl(ep, EPOLL_CTL_DEL, a, 0));
    SAY_CALL("mod after", epoll_ctl(ep, EPOLL_CTL_MOD, a, &exclusive));
    SAY_CALL("del without event", epoll_ctl(ep, EPOLL_CTL_DEL, a, 0));
}

CASE(exclusive) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLEXCLUSIVE, 2));
    wait_and_say("in", LONG);
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN, 3)));
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN, 3)));
    put(b, "def");
    wait_and_say("in", LONG);
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 3)));
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 3));
    wait_and_say("in", LONG);
}

CASE(exclusive_from_the_start) {
    other = epoll_create1(0);
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLEXCLUSIVE, 1));
    SAY("add %d", ctl_other(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLEXCLUSIVE, 2));
    put(b, "abc");
    wait_and_say("in", LONG);
    wait_other("in", LONG);
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
    wait_other("none", SHORT);
    close(other);
}

CASE(other_names_of_conditions) {
    ctl(EPOLL_CTL_ADD, a, EPOLLRDNORM | EPOLLWRNORM, 1);
    struct epoll_event event;
    int count = epoll_wait(ep, &event, 1, LONG);
    SAY("wait %d %x", count, event.events);
    ctl(EPOLL_CTL_MOD, a, EPOLLRDNORM | EPOLLIN, 1);
    put(b, "x");
    count = epoll_wait(ep, &event, 1, LONG);
    SAY("wait %d %x", count, event.events);
    ctl(EPOLL_CTL_MOD, a, EPOLLMSG | EPOLLRDBAND | EPOLLWRBAND, 1);
    count = epoll_wait(ep, &event, 1, SHORT);
    SAY("wait %d", count);
    ctl(EPOLL_CTL_MOD, a, ~(unsigned)(EPOLLEXCLUSIVE | EPOLLWAKEUP | EPOLLPRI), 1);
    count = epoll_wait(ep, &event, 1, LONG);
    SAY("wait %d %x", count, event.events);
}

CASE(one_shot_edge) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT | EPOLLET | EPOLLONESHOT, 1);
    wait_and_say("shot", LONG);
    put(b, "abc");
    wait_and_say("fired", SHORT);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLET | EPOLLONESHOT, 2);
    wait_and_say("again", LONG);
    say_read("part", a, 1);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLET | EPOLLONESHOT, 3);
    wait_and_say("rest", LONG);
    say_read("rest", a, 10);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLET | EPOLLONESHOT, 4);
    wait_and_say("none", SHORT);
    put(b, "def");
    wait_and_say("new", LONG);
}

CASE(edge_after_a_part) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    put(b, "abcdef");
    wait_and_say("in", LONG);
    say_read("part", a, 2);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN, 2);
    wait_and_say("level", LONG);
    wait_and_say("level", LONG);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLET, 3);
    wait_and_say("edge", LONG);
    wait_and_say("none", SHORT);
    say_read("rest", a, 10);
    wait_and_say("none", SHORT);
}

CASE(mod_to_nothing_and_back) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT, 1);
    put(b, "abc");
    usleep(1000);
    wait_and_say("both", LONG);
    ctl(EPOLL_CTL_MOD, a, 0, 2);
    wait_and_say("none", SHORT);
    say_read("read", a, 10);
    put(b, "def");
    wait_and_say("none", SHORT);
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("none", SHORT);
    shutdown(a, SHUT_WR);
    wait_and_say("hung up", LONG);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLRDHUP, 3);
    wait_and_say("all", LONG);
    say_read("read", a, 10);
    say_read("end", a, 10);
}
