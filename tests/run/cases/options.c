#include "common.h"

#include <linux/tls.h>

// Options, counts and errors of a socket.

static int number(int level, int name) {
    int value = -1;
    socklen_t len = sizeof value;
    CHECK(!getsockopt(a, level, name, &value, &len));
    return value;
}

static int give_number(int level, int name, int value) {
    return setsockopt(a, level, name, &value, sizeof value) ? errno : 0;
}

CASE(low_water) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY("set %d, is %d", give_number(SOL_SOCKET, SO_RCVLOWAT, 5), number(SOL_SOCKET, SO_RCVLOWAT));
    put(b, "abc");
    wait_and_say("too few", SHORT);
    put(b, "de");
    wait_and_say("enough", LONG);
    say_read("read", a, 4);
    wait_and_say("too few", SHORT);
    say_read("read all the same", a, 10);
    put(b, "f");
    shutdown(b, SHUT_WR);
    wait_and_say("end", LONG);
    say_read("read", a, 10);
}

CASE(low_water_over_bytes) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("set %d", give_number(SOL_SOCKET, SO_RCVLOWAT, 5));
    wait_and_say("too few", SHORT);
    put(b, "de");
    wait_and_say("enough", LONG);
    say_read("part", a, 1);
    wait_and_say("too few", SHORT);
    SAY("set %d", give_number(SOL_SOCKET, SO_RCVLOWAT, 1));
    wait_and_say("in", LONG);
    say_read("rest", a, 10);
}

CASE(low_water_handed_back) {
    // What is missing comes to the kernel.
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY("set %d", give_number(SOL_SOCKET, SO_RCVLOWAT, 5));
    put(b, "abc");
    wait_and_say("too few", SHORT);
    SAY("poll %d", poll(&(struct pollfd){.fd = a, .events = POLLIN}, 1, 0));
    wait_and_say("too few", SHORT);
    put(b, "de");
    wait_and_say("enough", LONG);
    say_read("read", a, 10);
    put(b, "fghi");
    wait_and_say("too few", SHORT);
    put(b, "j");
    wait_and_say("enough", LONG);
    say_read("read", a, 10);
}

CASE(low_water_before) {
    SAY("set %d", give_number(SOL_SOCKET, SO_RCVLOWAT, 5));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("too few", SHORT);
    put(b, "de");
    wait_and_say("enough", LONG);
    say_read("read", a, 10);
}

CASE(low_water_of_a_listener) {
    int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0), low = 5;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    CHECK(!bind(l, (void *)&address, len) && !listen(l, 8) && !getsockname(l, (void *)&address, &len));
    CHECK(!setsockopt(l, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low));
    CHECK(!connect(c, (void *)&address, len));
    int s = accept4(l, 0, 0, SOCK_NONBLOCK);
    ctl(EPOLL_CTL_ADD, s, EPOLLIN, 3);
    put(c, "abc");
    wait_and_say("too few", SHORT);
    put(c, "de");
    wait_and_say("enough", LONG);
    say_read("read", s, 10);
    close(s), close(c), close(l);
}

CASE(low_water_edge) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    wait_and_say("none", 0);
    give_number(SOL_SOCKET, SO_RCVLOWAT, 4);
    put(b, "ab");
    wait_and_say("too few", SHORT);
    put(b, "cd");
    wait_and_say("edge", LONG);
    wait_and_say("none", SHORT);
    say_read("read", a, 10);
}

CASE(times_out) {
    struct timeval time = {0, 1000};
    char bytes[4];
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    CHECK(!setsockopt(a, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    CHECK(!setsockopt(a, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time));
    SAY_CALL("nothing", recv(a, bytes, 4, 0));
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY_CALL("recv", recv(a, bytes, 4, 0));
    SAY_CALL("nothing", recv(a, bytes, 4, MSG_WAITALL));
    wait_and_say("none", SHORT);
}

CASE(error_is_taken_once) {
    char byte;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT, 1);
    wait_and_say("out", LONG);
    SAY("no error %d", number(SOL_SOCKET, SO_ERROR));
    reset(b);
    b = -1;
    usleep(20000);
    wait_and_say("reset", LONG);
    SAY_CALL("peek", recv(a, &byte, 1, MSG_PEEK));
    SAY("error %d", number(SOL_SOCKET, SO_ERROR));
    wait_and_say("after", LONG);
    SAY_CALL("read", read(a, &byte, 1));
    SAY_CALL("send", send(a, &byte, 1, MSG_NOSIGNAL));
}

CASE(error_goes_to_a_write) {
    char byte;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    reset(b);
    b = -1;
    wait_and_say("reset", LONG);
    SAY_CALL("send", send(a, "x", 1, MSG_NOSIGNAL));
    SAY_CALL("read", read(a, &byte, 1));
    SAY("error %d", number(SOL_SOCKET, SO_ERROR));
}

CASE(counts) {
    int count = -1;
    char byte;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    ioctl(a, FIONREAD, &count);
    SAY("nothing %d", count);
    put(b, "abc");
    usleep(1000);
    ioctl(a, FIONREAD, &count);
    SAY("three %d", count);
    wait_and_say("in", LONG);
    ioctl(a, FIONREAD, &count);
    SAY("still %d", count);
    SAY_CALL("read", read(a, &byte, 1));
    ioctl(a, FIONREAD, &count);
    SAY("two %d", count);
    put(b, "def");
    usleep(1000);
    ioctl(a, FIONREAD, &count);
    SAY("five %d", count);
    shutdown(b, SHUT_WR);
    usleep(20000);
    ioctl(a, FIONREAD, &count);
    SAY("five at the end %d", count);
    SAY_CALL("null", ioctl(a, FIONREAD, 0));
}

CASE(counts_of_what_is_sent) {
    int count = -1;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY_CALL("write", write(a, "abc", 3));
    wait_and_say("wait", 0);
    say_peer("peer");
    for (int i = 0; i < 100 && count; i++) ioctl(a, TIOCOUTQ, &count), usleep(1000);
    SAY("left %d", count);
    end_batch();
}

CASE(lingering) {
    // An abortive close throws away what was written, and the peer is reset.
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    reset(a);
    a = -1;
    say_peer("peer");
}

CASE(corked) {
    int on = 1, off = 0;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    setsockopt(a, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
    SAY_CALL("write", write(a, "abc", 3));
    SAY_CALL("more", send(a, "def", 3, MSG_MORE));
    SAY_CALL("write", write(a, "ghi", 3));
    setsockopt(a, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    wait_and_say("wait", 0);
    shutdown(a, SHUT_WR);
    say_rest_of_peer("peer");
    end_batch();
}

CASE(peek_offset) {
    char bytes[4];
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    if (give_number(SOL_SOCKET, SO_PEEK_OFF, 0)) return;  // before Linux 6.9
    put(b, "abcdef");
    wait_and_say("in", LONG);
    say_bytes("first", recv(a, bytes, 2, MSG_PEEK), bytes);
    say_bytes("second", recv(a, bytes, 2, MSG_PEEK), bytes);
    say_read("read", a, 1);
    say_bytes("third", recv(a, bytes, 2, MSG_PEEK), bytes);
    wait_and_say("in", LONG);
}

CASE(peek_again_and_again) {
    char bytes[20];
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    for (int i = 0; i < 4; i++) {
        put(b, "abcd");
        wait_and_say("in", LONG);
    }
    for (size_t len = 1; len < 20; len += 5) {
        ssize_t got = recv(a, bytes, len, MSG_PEEK);
        say_bytes("peek", got, bytes);
    }
    say_read("read", a, 6);
    ssize_t got = recv(a, bytes, 20, MSG_PEEK);
    say_bytes("peek", got, bytes);
    got = recv(a, bytes, 3, MSG_TRUNC);
    SAY("dropped %zd", got);
    got = recv(a, bytes, 20, MSG_PEEK);
    say_bytes("peek", got, bytes);
    say_read("rest", a, 20);
}

// Urgent data

static void say_urgent(const char *what) {
    char byte = '-';
    ssize_t got = recv(a, &byte, 1, MSG_OOB);
    SAY("%s %zd %c", what, got, byte);
}

CASE(urgent_between) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLPRI, 1);
    wait_and_say("none", 0);
    put(b, "abc");
    CHECK(send(b, "!", 1, MSG_OOB) == 1);
    put(b, "def");
    usleep(1000);
    wait_and_say("both", LONG);
    say_read("before", a, 10);
    say_urgent("urgent");
    say_read("after", a, 10);
    say_urgent("none");
}

CASE(urgent_asked_for_later) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLPRI, 2);
    CHECK(send(b, "!", 1, MSG_OOB) == 1);
    wait_and_say("pri", LONG);
    say_urgent("urgent");
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
}

CASE(urgent_inline) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("set %d", give_number(SOL_SOCKET, SO_OOBINLINE, 1));
    say_read("read", a, 10);
    CHECK(send(b, "!", 1, MSG_OOB) == 1);
    wait_and_say("in", LONG);
    say_urgent("not so");
    say_read("but so", a, 10);
}

CASE(urgent_inline_added_again) {
    // What keeps a socket off a ring does so when it is added anew.
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("set %d", give_number(SOL_SOCKET, SO_OOBINLINE, 1));
    say_read("read", a, 10);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2));
    wait_and_say("none", 0);
    put(b, "abc");
    CHECK(send(b, "!", 1, MSG_OOB) == 1);
    put(b, "def");
    usleep(1000);
    wait_and_say("in", LONG);
    say_read("to the mark", a, 10);
    say_read("rest", a, 10);
}

CASE(urgent_inline_before) {
    SAY("set %d", give_number(SOL_SOCKET, SO_OOBINLINE, 1));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    put(b, "abc");
    CHECK(send(b, "!", 1, MSG_OOB) == 1);
    put(b, "def");
    usleep(1000);
    wait_and_say("in", LONG);
    int mark = -1;
    say_read("to the mark", a, 10);
    ioctl(a, SIOCATMARK, &mark);
    SAY("mark %d", mark);
    say_read("rest", a, 10);
}

static volatile sig_atomic_t urgent_signals;
static void count_urgent(int number) { (void)number, urgent_signals++; }

CASE(urgent_by_signal) {
    signal(SIGURG, count_urgent);
    urgent_signals = 0;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    CHECK(!fcntl(a, F_SETOWN, getpid()));
    put(b, "abc");
    CHECK(send(b, "!", 1, MSG_OOB) == 1);
    put(b, "def");
    usleep(1000);
    SAY("%d signals", (int)urgent_signals);
    wait_and_say("in", LONG);
    say_urgent("urgent");
    say_read("before", a, 10);
    say_read("after", a, 10);
    signal(SIGURG, SIG_DFL);
}

CASE(urgent_sent) {
    char bytes[10];
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY_CALL("write", write(a, "abc", 3));
    SAY_CALL("urgent", send(a, "!", 1, MSG_OOB));
    SAY_CALL("write", write(a, "def", 3));
    wait_and_say("wait", 0);
    say_bytes("before", recv(b, bytes, 10, 0), bytes);
    say_bytes("urgent", recv(b, bytes, 1, MSG_OOB), bytes);
    say_bytes("after", recv(b, bytes, 10, 0), bytes);
    end_batch();
}


CASE(kernel_tls) {
    // Where the kernel has TLS (CONFIG_TLS), both ends use it with the same key.
    struct tls12_crypto_info_aes_gcm_128 key = {.info = {TLS_1_2_VERSION, TLS_CIPHER_AES_GCM_128}};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "hello");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    int has_tls = !setsockopt(a, IPPROTO_TCP, TCP_ULP, "tls", 4) && !setsockopt(b, IPPROTO_TCP, TCP_ULP, "tls", 4);
    SAY("%s", has_tls ? "encrypted" : "in clear");
    int ends[2] = {a, b};
    for (int i = 0; has_tls && i < 2; i++) {
        CHECK(!setsockopt(ends[i], SOL_TLS, TLS_TX, &key, sizeof key));
        CHECK(!setsockopt(ends[i], SOL_TLS, TLS_RX, &key, sizeof key));
    }
    wait_and_say("none", SHORT);
    put(b, "record");
    wait_and_say("in", LONG);
    say_read("read", a, 3);
    say_read("read", a, 10);
    SAY_CALL("write", write(a, "reply", 5));
    say_peer("peer");
}
