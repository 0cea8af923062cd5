#include "common.h"

// Lengths, flags, places and addresses of single calls.

static void give(const char *text) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, text);
    wait_and_say("in", LONG);
}

CASE(zero_lengths) {
    char bytes[4];
    struct iovec place = {bytes, 0};
    struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY_CALL("read of nothing", read(a, bytes, 0));
    SAY_CALL("recv of nothing", recv(a, bytes, 0, 0));
    SAY_CALL("recvmsg of nothing", recvmsg(a, &message, 0));
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY_CALL("read", read(a, bytes, 0));
    SAY_CALL("recv", recv(a, bytes, 0, 0));
    SAY_CALL("peek", recv(a, bytes, 0, MSG_PEEK));
    SAY_CALL("readv", readv(a, &place, 1));
    SAY_CALL("recvmsg", recvmsg(a, &message, 0));
    wait_and_say("in still", LONG);
    SAY_CALL("write", write(a, bytes, 0));
    SAY_CALL("send", send(a, bytes, 0, MSG_NOSIGNAL));
    SAY_CALL("writev", writev(a, &place, 1));
    message.msg_iovlen = 0;
    SAY_CALL("sendmsg", sendmsg(a, &message, MSG_NOSIGNAL));
    say_read("all", a, 10);
    shutdown(b, SHUT_WR);
    wait_and_say("end", LONG);
    SAY_CALL("recv at the end", recv(a, bytes, 0, 0));
    SAY_CALL("read at the end", read(a, bytes, 0));
}

CASE(zero_lengths_after_end) {
    char bytes[4];
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    shutdown(a, SHUT_WR);
    SAY_CALL("write", write(a, bytes, 0));
    SAY_CALL("send", send(a, bytes, 0, MSG_NOSIGNAL));
}

CASE(bad_places) {
    char bytes[8] = "";
    struct iovec places[2] = {{bytes, 2}, {0, 3}};
    struct msghdr message = {.msg_iov = places, .msg_iovlen = 2};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY_CALL("nothing to null", read(a, 0, 10));
    put(b, "abcdef");
    wait_and_say("in", LONG);
    SAY_CALL("read to null", read(a, 0, 10));
    SAY_CALL("recv to null", recv(a, 0, 10, 0));
    SAY_CALL("peek to null", recv(a, 0, 10, MSG_PEEK));
    SAY_CALL("readv of null", readv(a, 0, 1));
    SAY_CALL("recvmsg of null", recvmsg(a, 0, 0));
    SAY_CALL("to the kernel", read(a, (char *)-4096, 10));
    wait_and_say("in", LONG);
    SAY_CALL("write of null", write(a, 0, 10));
    SAY_CALL("send of null", send(a, 0, 10, MSG_NOSIGNAL));
    SAY_CALL("writev of null", writev(a, 0, 1));
    SAY_CALL("sendmsg of null", sendmsg(a, 0, MSG_NOSIGNAL));
    message.msg_iov = 0;
    SAY_CALL("no pieces", recvmsg(a, &message, 0));
    SAY_CALL("no pieces", sendmsg(a, &message, MSG_NOSIGNAL));
    say_read("all", a, 10);
}

CASE(bad_lengths) {
    char bytes[8] = "";
    struct iovec negative[2] = {{bytes, 2}, {bytes + 2, (size_t)-1}};
    give("abcdef");
    SAY_CALL("negative", readv(a, negative, 2));
    SAY_CALL("negative count", readv(a, negative, -1));
    SAY_CALL("too many", readv(a, negative, 2000));
    SAY_CALL("negative", writev(a, negative, 2));
    SAY_CALL("negative count", writev(a, negative, -1));
    SAY_CALL("too long", read(a, bytes, (size_t)-1));
    SAY_CALL("too long", write(a, bytes, (size_t)-1));
    wait_and_say("in still", LONG);
    say_read("all", a, 10);
}

CASE(bad_places_of_a_batch) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    struct iovec negative[2] = {{"ab", 2}, {"cd", (size_t)-1}};
    SAY_CALL("write of null", write(a, 0, 10));
    SAY_CALL("negative", writev(a, negative, 2));
    SAY_CALL("write", write(a, "ab", 2));
    wait_and_say("wait", 0);
    say_peer("peer");
    end_batch();
}

CASE(many_pieces) {
    static char bytes[1024];
    struct iovec places[1024];
    for (int i = 0; i < 1024; i++) places[i] = (struct iovec){bytes + i, i % 3 == 2 ? 0 : 1};
    give("0123456789");
    SAY_CALL("readv", readv(a, places, 1024));
    SAY("%c%c %c%c", bytes[0], bytes[1], bytes[3], bytes[4]);
    for (int i = 0; i < 1024; i++) places[i] = (struct iovec){"z", 1};
    SAY_CALL("writev", writev(a, places, 1024));
    char got[2000];
    SAY_CALL("peer", recv(b, got, sizeof got, MSG_WAITALL | MSG_DONTWAIT));
}

CASE(flags_of_receives) {
    char bytes[10];
    give("abcdefghijklmnopqr");
    ssize_t got = recv(a, bytes, 2, MSG_WAITALL);
    say_bytes("WAITALL", got, bytes);
    got = recv(a, bytes, 2, MSG_NOSIGNAL);
    say_bytes("NOSIGNAL", got, bytes);
    got = recv(a, bytes, 2, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    say_bytes("DONTWAIT", got, bytes);
    got = recv(a, bytes, 2, MSG_MORE);
    say_bytes("MORE", got, bytes);
    got = recv(a, bytes, 2, MSG_CONFIRM | MSG_EOR);
    say_bytes("CONFIRM", got, bytes);
    got = recv(a, bytes, 2, MSG_PEEK | MSG_TRUNC);
    SAY("PEEK TRUNC %zd", got);
    got = recv(a, bytes, 2, MSG_PEEK | MSG_WAITALL);
    say_bytes("PEEK WAITALL", got, bytes);
    SAY_CALL("ERRQUEUE", recv(a, bytes, 2, MSG_ERRQUEUE));
    got = recv(a, bytes, 2, MSG_TRUNC);
    SAY("TRUNC %zd", got);
    got = recv(a, 0, 2, MSG_TRUNC);
    SAY("TRUNC null %zd", got);
    SAY_CALL("OOB", recv(a, bytes, 2, MSG_OOB));
    say_read("rest", a, 10);
    SAY_CALL("WAITALL of nothing", recv(a, bytes, 2, MSG_WAITALL));
    SAY_CALL("TRUNC of nothing", recv(a, 0, 2, MSG_TRUNC));
}

CASE(waits_for_all_that_is_here) {
    char bytes[10];
    give("abc");
    ssize_t got = recv(a, bytes, 10, MSG_WAITALL);
    say_bytes("some", got, bytes);
    put(b, "def");
    shutdown(b, SHUT_WR);
    usleep(20000);
    got = recv(a, bytes, 10, MSG_WAITALL);
    say_bytes("last", got, bytes);
    got = recv(a, bytes, 10, MSG_WAITALL);
    say_bytes("end", got, bytes);
}

CASE(header_of_a_message) {
    char bytes[4], control[64];
    struct sockaddr_storage from;
    struct iovec place = {bytes, 2};
    struct msghdr message = {&from, sizeof from, &place, 1, control, sizeof control, 0x7777};
    give("abcdefghij");
    SAY_CALL("recvmsg", recvmsg(a, &message, MSG_CMSG_CLOEXEC));
    SAY("%u %zu %x", message.msg_namelen, message.msg_controllen, message.msg_flags);
    message = (struct msghdr){0, 77, &place, 1, 0, 0, 0};
    SAY_CALL("recvmsg", recvmsg(a, &message, MSG_PEEK));
    SAY("%u %zu %x", message.msg_namelen, message.msg_controllen, message.msg_flags);
    message = (struct msghdr){&from, sizeof from, &place, 1, control, sizeof control, 5};
    say_read("rest", a, 10);
    SAY_CALL("nothing", recvmsg(a, &message, 0));
    SAY("%u %zu %x", message.msg_namelen, message.msg_controllen, message.msg_flags);
}

CASE(address_of_a_receive) {
    char bytes[4];
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    give("abcdef");
    SAY_CALL("both", recvfrom(a, bytes, 2, 0, (void *)&from, &len));
    SAY("length %u", len);
    len = 9;
    SAY_CALL("no address", recvfrom(a, bytes, 2, 0, 0, &len));
    SAY("length %u", len);
    SAY_CALL("neither", recvfrom(a, bytes, 2, 0, 0, 0));
    len = 9;
    SAY_CALL("nothing", recvfrom(a, bytes, 2, 0, (void *)&from, &len));
    SAY("length %u", len);
}

CASE(address_of_a_send) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = 1, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct iovec piece = {"def", 3};
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &piece, .msg_iovlen = 1};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY_CALL("sendto", sendto(a, "abc", 3, MSG_NOSIGNAL, (void *)&to, sizeof to));
    SAY_CALL("sendmsg", sendmsg(a, &message, MSG_NOSIGNAL));
    SAY_CALL("long address", sendto(a, "abc", 3, MSG_NOSIGNAL, (void *)&to, 1000));
    SAY_CALL("bad address", sendto(a, "abc", 3, MSG_NOSIGNAL, (void *)8, sizeof to));
    wait_and_say("wait", 0);
    say_peer("peer");
    end_batch();
}

// Many messages at once

static void say_messages(const char *what, int count, struct mmsghdr *messages) {
    char line[200] = "";
    for (int i = 0; i < count; i++)
        sprintf(line + strlen(line), " %u'%.*s'", messages[i].msg_len, (int)messages[i].msg_len,
                (char *)messages[i].msg_hdr.msg_iov->iov_base);
    SAY("%s %d%s %s", what, count, line, count < 0 ? strerror(errno) : "");
}

static char room[4][4];
static struct iovec places[4];
static struct mmsghdr messages[4];

static void make_messages(void) {
    for (int i = 0; i < 4; i++) {
        places[i] = (struct iovec){room[i], 3};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &places[i], .msg_iovlen = 1}};
    }
}

CASE(messages_received) {
    make_messages();
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    say_messages("nothing", recvmmsg(a, messages, 4, 0, 0), messages);
    put(b, "abcdefgh");
    wait_and_say("in", LONG);
    say_messages("none", recvmmsg(a, messages, 0, 0, 0), messages);
    say_messages("two", recvmmsg(a, messages, 2, 0, 0), messages);
    wait_and_say("in", LONG);
    say_messages("rest", recvmmsg(a, messages, 4, MSG_WAITFORONE, 0), messages);
    say_messages("nothing", recvmmsg(a, messages, 4, 0, 0), messages);
    wait_and_say("none", SHORT);
    put(b, "ijk");
    wait_and_say("in", LONG);
    say_messages("again", recvmmsg(a, messages, 4, 0, 0), messages);
}

CASE(messages_received_at_the_end) {
    make_messages();
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    put(b, "abcd");
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("end", LONG);
    say_messages("last", recvmmsg(a, messages, 4, 0, 0), messages);
    say_messages("end", recvmmsg(a, messages, 2, 0, 0), messages);
}

CASE(messages_received_before_a_reset) {
    make_messages();
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    put(b, "abcd");
    wait_and_say("in", LONG);
    reset(b);
    usleep(20000);
    wait_and_say("reset", LONG);
    say_messages("bytes", recvmmsg(a, messages, 4, 0, 0), messages);
    say_messages("error", recvmmsg(a, messages, 4, 0, 0), messages);
    say_messages("end", recvmmsg(a, messages, 1, 0, 0), messages);
    b = -1;
}

CASE(messages_sent) {
    make_messages();
    memcpy(room, "abc\0def\0ghi\0jkl", 16);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY_CALL("first", write(a, "1 ", 2));
    say_messages("sent", sendmmsg(a, messages, 4, MSG_NOSIGNAL), messages);
    SAY_CALL("none", sendmmsg(a, messages, 0, MSG_NOSIGNAL));
    SAY_CALL("last", write(a, " 2", 2));
    wait_and_say("wait", 0);
    shutdown(a, SHUT_WR);
    say_rest_of_peer("peer");
    SAY_CALL("after the end", sendmmsg(a, messages, 4, MSG_NOSIGNAL));
    end_batch();
}

CASE(by_position) {
    char bytes[8] = "";
    struct iovec place = {bytes, 3};
    give("abcdefgh");
    SAY_CALL("pread", pread(a, bytes, 3, 0));
    SAY_CALL("preadv", preadv(a, &place, 1, 0));
    SAY_CALL("preadv2", preadv2(a, &place, 1, 0, 0));
    ssize_t got = preadv2(a, &place, 1, -1, 0);
    say_bytes("preadv2 as readv", got, bytes);
    got = preadv2(a, &place, 1, -1, RWF_NOWAIT);
    say_bytes("preadv2 at once", got, bytes);
    SAY_CALL("pwrite", pwrite(a, "x", 1, 0));
    SAY_CALL("pwritev2", pwritev2(a, &place, 1, 0, 0));
    SAY_CALL("pwritev2 as writev", pwritev2(a, &place, 1, -1, 0));
    say_peer("peer");
    say_read("rest", a, 10);
}
