#include "common.h"

// epoll_ctl

CASE(ctl_errors) {
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN, 1)));
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1)));
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1)));
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN, 1)));
    SAY("bad op %s", strerror(ctl(77, a, EPOLLIN, 1)));
    SAY("bad fd %s", strerror(ctl(EPOLL_CTL_ADD, 999, EPOLLIN, 1)));
    SAY("itself %s", strerror(ctl(EPOLL_CTL_ADD, ep, EPOLLIN, 1)));
    SAY("no set %s", strerror(epoll_ctl(a, EPOLL_CTL_ADD, b, &(struct epoll_event){.events = EPOLLIN}) ? errno : 0));
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1)));
    SAY("no event %s", strerror(epoll_ctl(ep, EPOLL_CTL_MOD, a, 0) ? errno : 0));
}

CASE(ctl_after_wait) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1)));
    put(b, "x");
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    wait_and_say("none", SHORT);
    say_read("read", a, 100);
    put(b, "y");
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2)));
    wait_and_say("in", LONG);
    say_read("read", a, 100);
}

CASE(del_with_bytes) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("one", a, 1);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    wait_and_say("none", SHORT);
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN, 1)));
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    say_read("two", a, 1);
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2));
    wait_and_say("in", LONG);
    say_read("three", a, 10);
    wait_and_say("none", SHORT);
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("rest", a, 10);
}

CASE(closed_member) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    wait_and_say("in", LONG);
    close(a);
    wait_and_say("gone", SHORT);
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    int before = a;
    close(b);
    pair_of(&a, &b);
    (void)before;
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2)));
    wait_and_say("none of the old one", SHORT);
    say_read("nothing", a, 10);
    put(b, "new");
    wait_and_say("in", LONG);
    say_read("new", a, 10);
}

CASE(max_events) {
    struct epoll_event events[4];
    int e = eventfd(1, EFD_NONBLOCK), seen[3] = {0};
    ctl(EPOLL_CTL_ADD, e, EPOLLIN, 1);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2);
    put(b, "x");
    SAY_CALL("zero", epoll_wait(ep, events, 0, 0));
    SAY_CALL("negative", epoll_wait(ep, events, -1, 0));
    for (int i = 0; i < 20; i++)
        if (epoll_wait(ep, events, 1, LONG) == 1) seen[events[0].data.u64]++;
    SAY("neither starves: %s", seen[1] >= 5 && seen[2] >= 5 ? "yes" : "no");
    close(e);
}
