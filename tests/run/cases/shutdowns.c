#include "common.h"

// Both directions of a connection end, in every order.

CASE(end_then_reset) {
    // The peer is gone, and says so when it is written to.
    ctl(EPOLL_CTL_ADD, a, EPOLLOUT | EPOLLRDHUP, 1);
    wait_and_say("out", LONG);
    close(b);
    usleep(20000);
    wait_and_say("end", LONG);
    SAY_CALL("send", send(a, "x", 1, MSG_NOSIGNAL));
    usleep(20000);
    wait_and_say("broken", LONG);
    SAY_CALL("send", send(a, "x", 1, MSG_NOSIGNAL));
    wait_and_say("after", LONG);
    b = -1;
}

CASE(end_then_reset_edge) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
    wait_and_say("none", 0);
    close(b);
    wait_and_say("end", LONG);
    wait_and_say("none", SHORT);
    SAY_CALL("send", send(a, "x", 1, MSG_NOSIGNAL));
    wait_and_say("broken", LONG);
    wait_and_say("none", SHORT);
    say_read("error", a, 1);
    b = -1;
}

CASE(end_then_reset_without_interest) {
    ctl(EPOLL_CTL_ADD, a, 0, 1);
    wait_and_say("none", 0);
    close(b);
    wait_and_say("none", SHORT);
    SAY_CALL("send", send(a, "x", 1, MSG_NOSIGNAL));
    wait_and_say("broken", LONG);
    b = -1;
}

CASE(write_after_own_end) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY_CALL("write", write(a, "abc", 3));
    SAY_CALL("shutdown", shutdown(a, SHUT_WR));
    SAY_CALL("write", write(a, "def", 3));
    SAY_CALL("send", send(a, "def", 3, MSG_NOSIGNAL));
    SAY_CALL("again", shutdown(a, SHUT_WR));
    wait_and_say("wait", 0);
    say_peer("peer");
    say_peer("peer");
    end_batch();
}

static int signals;
static void count_signal(int number) { (void)number, signals++; }

CASE(write_after_own_end_signals) {
    signal(SIGPIPE, count_signal);
    signals = 0;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY_CALL("shutdown", shutdown(a, SHUT_WR));
    SAY_CALL("write", write(a, "def", 3));
    SAY("%d signals", signals);
    SAY_CALL("send", send(a, "def", 3, MSG_NOSIGNAL));
    SAY("%d signals", signals);
    signal(SIGPIPE, SIG_IGN);
    end_batch();
}

CASE(write_after_a_late_end) {
    // The kernel takes no more, so the end comes after what waits.
    static char bytes[65536];
    ssize_t got, total = 0;
    int size = 4096;
    signal(SIGPIPE, count_signal);
    signals = 0;
    setsockopt(a, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    put(b, "x");
    make_batch();
    for (int i = 0; i < 500 && (got = send(a, bytes, 10000, MSG_NOSIGNAL)) > 0; i++) total += got;
    SAY_CALL("shutdown", shutdown(a, SHUT_WR));
    SAY_CALL("write", write(a, "def", 3));
    SAY_CALL("send", send(a, "def", 3, MSG_NOSIGNAL));
    SAY("%d signals", signals);
    signal(SIGPIPE, SIG_IGN);
    end_batch();
    fcntl(b, F_SETFL, O_NONBLOCK);
    for (int idle = 0; idle < 200;) {
        got = recv(b, bytes, sizeof bytes, 0);
        if (got > 0) total -= got;
        if (got == 0) break;
        if (got < 0) idle++, epoll_wait(ep, &(struct epoll_event){0}, 1, 5);
    }
    SAY("%zd left at the end", got == 0 ? total : -1);
}

// Sends until the peer has to read first.
static ssize_t fill(void) {
    static char bytes[65536];
    ssize_t got, total = 0;
    for (int tries = 0; tries < 20; tries++) {
        while (total < 8 << 20 && (got = send(a, bytes, 10000, MSG_NOSIGNAL)) > 0) total += got, tries = 0;
        usleep(500);
    }
    return total;
}

// The peer has ended its side, and takes nothing: the kernel adds EPOLLRDHUP to what a poll in a ring asks for.
static void fill_half_closed(unsigned flags) {
    make_narrow();
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | flags, 1);
    wait_and_say("none", 0);
    SAY_CALL("shutdown", shutdown(b, SHUT_WR));
    wait_and_say("end", LONG);
    say_read("end", a, 10);
    fill();
}

static long cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void wait_for_room(unsigned flags) {
    fill_half_closed(flags);
    ctl(EPOLL_CTL_MOD, a, EPOLLOUT | flags, 1);
    long before = cpu_ms();
    wait_and_say("full", 10 * SHORT);
    SAY("%s", cpu_ms() - before < 5 * SHORT ? "sleeps" : "busy");
    char bytes[65536];
    fcntl(b, F_SETFL, O_NONBLOCK);
    for (int i = 0; i < 500; i++)
        if (recv(b, bytes, sizeof bytes, 0) < 0) usleep(100);
    wait_and_say("room", LONG);
    SAY_CALL("send", send(a, "x", 1, MSG_NOSIGNAL));
}

CASE(room_after_the_peers_end_level) { wait_for_room(0); }
CASE(room_after_the_peers_end_edge) { wait_for_room(EPOLLET); }
CASE(room_after_the_peers_end_one_shot) { wait_for_room(EPOLLONESHOT); }

CASE(queued_after_the_peers_end) {
    static char bytes[65536];
    ssize_t got;
    make_narrow();
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    SAY_CALL("shutdown", shutdown(b, SHUT_WR));
    make_batch();
    say_read("read", a, 1);
    ssize_t total = fill();
    ctl(EPOLL_CTL_MOD, a, 0, 1);
    end_batch();
    long before = cpu_ms();
    wait_and_say("full", 10 * SHORT);
    SAY("%s", cpu_ms() - before < 5 * SHORT ? "sleeps" : "busy");
    SAY_CALL("shutdown", shutdown(a, SHUT_WR));
    int size = 1 << 20;
    setsockopt(b, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    fcntl(b, F_SETFL, O_NONBLOCK);
    for (int idle = 0; idle < 1000;) {
        got = recv(b, bytes, sizeof bytes, 0);
        if (got > 0) total -= got;
        if (got == 0) break;
        if (got < 0) idle++, usleep(2000), epoll_wait(ep, &(struct epoll_event){0}, 1, 0);
    }
    SAY("%zd left at the end", got == 0 ? total : -1);
}

CASE(read_end_first) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY_CALL("shutdown", shutdown(a, SHUT_RD));
    wait_and_say("both", LONG);
    say_read("bytes", a, 10);
    say_read("end", a, 10);
    put(b, "def");
    usleep(1000);
    wait_and_say("in", LONG);
    say_read("more all the same", a, 10);
    say_read("end", a, 10);
    SAY_CALL("send", send(a, "reply", 5, MSG_NOSIGNAL));
    say_peer("peer");
    SAY_CALL("shutdown", shutdown(a, SHUT_WR));
    wait_and_say("hung up", LONG);
    say_peer("end");
}

CASE(both_ends_at_once) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 1);
    put(b, "abc");
    usleep(1000);
    wait_and_say("both", LONG);
    SAY_CALL("shutdown", shutdown(a, SHUT_RDWR));
    wait_and_say("all", LONG);
    say_read("bytes", a, 10);
    say_read("end", a, 10);
    SAY_CALL("send", send(a, "x", 1, MSG_NOSIGNAL));
    say_peer("end");
    SAY_CALL("bad", shutdown(a, 77));
    SAY_CALL("again", shutdown(a, SHUT_RDWR));
}

CASE(half_close_with_bytes) {
    static char bytes[300000], got[300000];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (char)(i * 7 + i / 251);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 1);
    size_t sent = 0, total = 0;
    fcntl(b, F_SETFL, O_NONBLOCK);
    int ended = 0;
    for (int i = 0; i < 10000; i++) {
        ssize_t count = sent < sizeof bytes ? send(b, bytes + sent, sizeof bytes - sent, MSG_NOSIGNAL) : 0;
        if (count > 0) sent += (size_t)count;
        if (sent == sizeof bytes && !ended) ended = !shutdown(b, SHUT_WR);
        struct epoll_event event;
        if (epoll_wait(ep, &event, 1, 20) != 1) continue;
        count = read(a, got + total, 1000);
        if (count == 0) break;
        if (count > 0) total += (size_t)count;
    }
    SAY("%zu bytes, %s", total, memcmp(bytes, got, sizeof bytes) ? "wrong" : "right");
    wait_and_say("end", LONG);
    put(a, "thanks");
    char reply[20];
    usleep(1000);
    say_bytes("peer", recv(b, reply, 20, 0), reply);
}

CASE(reset_of_a_written_connection) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    say_read("read", a, 10);
    SAY_CALL("write", write(a, "abc", 3));
    wait_and_say("wait", 0);
    reset(b);
    b = -1;
    usleep(20000);
    struct epoll_event events[8];
    int count = epoll_wait(ep, events, 8, LONG), seen = 0;
    for (int i = 0; i < count; i++)
        if (events[i].data.u64 == 1) seen = (int)events[i].events;
    SAY("reset %s", text_of((unsigned)seen));
    say_read("error", a, 10);
    say_read("end", a, 10);
    SAY_CALL("send", send(a, "x", 1, MSG_NOSIGNAL));
    end_batch();
}

CASE(closed_by_both) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
    wait_and_say("none", 0);
    shutdown(b, SHUT_WR);
    wait_and_say("end", LONG);
    say_read("end", a, 10);
    shutdown(a, SHUT_WR);
    wait_and_say("hung up", LONG);
    wait_and_say("none", SHORT);
    SAY_CALL("again", shutdown(a, SHUT_WR));
}

CASE(listener_shut) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    SAY_CALL("listen", listen(a, 1));
    SAY_CALL("accept", accept(a, 0, 0));
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
}

CASE(disconnected) {
    struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 1);
    wait_and_say("none", 0);
    SAY_CALL("disconnect", connect(a, &nowhere, sizeof nowhere));
    wait_and_say("hung up", LONG);
    SAY_CALL("send", send(a, "x", 1, MSG_NOSIGNAL));
    SAY_CALL("read", read(a, (char[4]){0}, 4));
}
