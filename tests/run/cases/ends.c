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

// The connection has ended in both directions while most of what the peer sent is still in the kernel.
static void end_with_much_unread(void) {
    static char bytes[100000];
    struct epoll_event event;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 1);
    wait_and_say("out", LONG);
    while (send(a, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {}
    wait_and_say("full", SHORT);
    for (int part = 0; part < 10; part++) {
        CHECK(send(b, bytes, sizeof bytes / 10, 0) == sizeof bytes / 10);
        epoll_wait(ep, &event, 1, SHORT);
    }
    shutdown(b, SHUT_WR);
    usleep(20000);
    epoll_wait(ep, &event, 1, LONG);
    shutdown(a, SHUT_WR);
    while (read(b, bytes, sizeof bytes) > 0) epoll_wait(ep, &event, 1, 0);
    usleep(20000);
    wait_and_say("both have ended", LONG);
}

// haproxy takes a short read for the last one once the end was reported.
#define READS_UP_TO_THE_END(read_once)                                   \
    do {                                                                 \
        long sum = 0, most = 20000, got;                                 \
        int shorts = 0;                                                  \
        end_with_much_unread();                                          \
        while ((got = (read_once)) > 0) sum += got, shorts += got < most; \
        SAY("sum %ld, short reads %d, last %ld", sum, shorts, got);      \
    } while (0)

static char end_buffer[20000];

CASE(reads_are_full_up_to_the_end) { READS_UP_TO_THE_END(read(a, end_buffer, 20000)); }

CASE(scattered_reads_are_full_up_to_the_end) {
    struct iovec pieces[] = {{end_buffer, 3000}, {end_buffer + 3000, 0}, {end_buffer + 3000, 17000}};
    READS_UP_TO_THE_END(readv(a, pieces, 3));
}

CASE(dropping_reads_are_full_up_to_the_end) {
    READS_UP_TO_THE_END(recv(a, NULL, 20000, MSG_TRUNC));
}

static ssize_t peek_and_read(void) {
    ssize_t peeked = recv(a, end_buffer, sizeof end_buffer, MSG_PEEK);
    ssize_t got = recv(a, end_buffer, sizeof end_buffer, 0);
    if (peeked != got) SAY("peeked %zd, read %zd", peeked, got);
    return got;
}

CASE(peeks_are_full_up_to_the_end) { READS_UP_TO_THE_END(peek_and_read()); }

// Less than 64 KiB in both sockets together: with a small window the kernel makes no long packets, which go beyond the bound.
static void pair_with_little_room(int *one, int *other) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), small = 4096, send_buffer = 20000;
    CHECK(!setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &small, sizeof small));
    CHECK(!bind(listener, (struct sockaddr *)&address, len) && !listen(listener, 1));
    CHECK(!getsockname(listener, (struct sockaddr *)&address, &len));
    CHECK((*one = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    CHECK(!connect(*one, (struct sockaddr *)&address, len));
    CHECK((*other = accept(listener, 0, 0)) >= 0);
    CHECK(!setsockopt(*one, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer));
    CHECK(!fcntl(*one, F_SETFL, O_NONBLOCK));
    close(listener);
}

// A program that ends leaves what it has written to the kernel, though its peer is slow.
static void end_with_a_slow_peer(int closes) {
    static char bytes[100000];
    long *written = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), got = 0;
    int pair[2];
    pair_with_little_room(&pair[0], &pair[1]);
    pid_t child = fork();
    if (!child) {
        ep = epoll_create1(0);
        ctl(EPOLL_CTL_ADD, pair[0], EPOLLOUT, 1);
        make_batch();
        for (ssize_t count; (count = send(pair[0], bytes, 9000, 0)) > 0;) *written += count;
        if (closes) close(pair[0]);
        _exit(0);
    }
    close(pair[0]);
    CHECK(waitpid(child, 0, 0) == child);
    for (ssize_t count; (count = read(pair[1], bytes, sizeof bytes)) > 0;) got += count;
    SAY("%s", got == *written ? "all" : got < *written ? "too little" : "too much");
    close(pair[1]);
    munmap(written, 4096);
}

CASE(exit_with_a_slow_peer) { end_with_a_slow_peer(0); }
CASE(close_and_exit_with_a_slow_peer) { end_with_a_slow_peer(1); }
