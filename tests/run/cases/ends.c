#include "common.h"

// Ends of connections

CASE(peer_shuts) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 1);
    put(b, "last");
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("end", LONG);
    say_read("read", a, 100);
    wait_and_say("end", LONG);
    say_read("eof", a, 100);
    say_read("eof", a, 100);
    wait_and_say("end still", LONG);
    put(a, "reply");
    say_peer("peer");
    shutdown(a, SHUT_WR);
    wait_and_say("both", LONG);
    say_peer("peer");
}

CASE(peer_shuts_out_only) {
    ctl(EPOLL_CTL_ADD, a, EPOLLOUT | EPOLLRDHUP, 1);
    wait_and_say("out", LONG);
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("out and end", LONG);
}

CASE(peer_shuts_edge) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
    wait_and_say("none", 0);
    shutdown(b, SHUT_WR);
    wait_and_say("end", LONG);
    wait_and_say("no second", SHORT);
    say_read("eof", a, 10);
    wait_and_say("no third", SHORT);
}

CASE(both_shut) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 1);
    wait_and_say("out", LONG);
    shutdown(a, SHUT_WR);
    wait_and_say("out", LONG);
    say_peer("eof");
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("all", LONG);
    SAY_CALL("write", send(a, "x", 1, MSG_NOSIGNAL));
}

CASE(shut_read) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 1);
    wait_and_say("none", 0);
    shutdown(a, SHUT_RD);
    wait_and_say("end", LONG);
    say_read("eof", a, 10);
}

CASE(peer_resets) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 1);
    wait_and_say("none", 0);
    reset(b);
    wait_and_say("reset", LONG);
    say_read("first", a, 10);
    say_read("second", a, 10);
    wait_and_say("after", LONG);
}

CASE(peer_resets_error) {
    int error = -1;
    socklen_t len = sizeof error;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    reset(b);
    wait_and_say("reset", LONG);
    getsockopt(a, SOL_SOCKET, SO_ERROR, &error, &len);
    SAY("error %s", strerror(error));
    getsockopt(a, SOL_SOCKET, SO_ERROR, &error, &len);
    SAY("error %s", strerror(error));
    say_read("then", a, 10);
}

CASE(reset_with_bytes) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    put(b, "before");
    wait_and_say("in", LONG);
    reset(b);
    usleep(20000);
    wait_and_say("in and reset", LONG);
    say_read("read", a, 100);
    say_read("read", a, 100);
    say_read("read", a, 100);
}

CASE(write_after_reset) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    reset(b);
    wait_and_say("reset", LONG);
    SAY_CALL("write", send(a, "x", 1, MSG_NOSIGNAL));
    SAY_CALL("write", send(a, "x", 1, MSG_NOSIGNAL));
}

CASE(close_with_bytes_resets) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "unread");
    wait_and_say("in", LONG);
    close(a);
    say_peer("peer");
    a = -1;
}

CASE(close_with_bytes_after_a_reply) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "unread");
    make_batch();
    SAY("write %zd", write(a, "reply", 5));
    close(a);
    usleep(20000);
    say_peer("reply");
    say_peer("reset");
    a = -1;
    end_batch();
}

CASE(close_without_bytes_ends) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    put(a, "answer");
    close(a);
    say_peer("peer");
    say_peer("peer");
    a = -1;
}
