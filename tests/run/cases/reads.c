#include "common.h"

// Kinds of reads

CASE(reads) {
    char one[4] = "", two[8] = "";
    struct iovec places[2] = {{one, 3}, {two, 7}};
    struct msghdr message = {.msg_iov = places, .msg_iovlen = 2};
    struct sockaddr_in from;
    socklen_t from_len = sizeof from;
    int count = -1;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "0123456789abcdefghijklmnopqrstuvwxyz");
    wait_and_say("in", LONG);
    ioctl(a, FIONREAD, &count);
    SAY("FIONREAD %d", count);
    ssize_t got = recv(a, two, 4, MSG_PEEK);
    say_bytes("peek", got, two);
    got = recv(a, two, 4, 0);
    say_bytes("recv", got, two);
    got = readv(a, places, 2);
    SAY("readv %zd '%.3s' '%.7s'", got, one, two);
    got = recvmsg(a, &message, 0);
    SAY("recvmsg %zd '%.3s' '%.7s' %x", got, one, two, message.msg_flags);
    got = recvmsg(a, &message, MSG_PEEK);
    SAY("peek %zd '%.3s' '%.7s'", got, one, two);
    got = recvfrom(a, two, 2, 0, (void *)&from, &from_len);
    SAY("recvfrom %zd '%.2s' %u", got, two, from_len);
    got = recv(a, 0, 3, MSG_TRUNC);
    SAY("dropped %zd", got);
    SAY("zero %zd", read(a, two, 0));
    ioctl(a, FIONREAD, &count);
    SAY("FIONREAD %d", count);
    say_read("rest", a, 100);
    ioctl(a, FIONREAD, &count);
    SAY("FIONREAD %d", count);
    SAY_CALL("peek nothing", recv(a, two, 4, MSG_PEEK));
    SAY("no pieces %zd", readv(a, places, 0));
}

CASE(pieces) {
    char bytes[100];
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    for (int i = 0; i < 5; i++) {
        char text[4] = {'a' + i, 'b' + i, 'c' + i, 0};
        put(b, text);
        wait_and_say("in", LONG);
    }
    ssize_t got = recv(a, bytes, 8, MSG_PEEK);
    say_bytes("peek", got, bytes);
    got = recv(a, bytes, 7, 0);
    say_bytes("some", got, bytes);
    got = recv(a, bytes, 100, 0);
    say_bytes("rest", got, bytes);
}

static void *pour(void *arg) {
    size_t len = *(size_t *)arg, done = 0;
    char *bytes = malloc(len);
    for (size_t i = 0; i < len; i++) bytes[i] = (char)(i * 7 + i / 251);
    while (done < len) done += (size_t)send(b, bytes + done, len - done, 0);
    shutdown(b, SHUT_WR);
    *(size_t *)arg = sum(bytes, len);
    free(bytes);
    return 0;
}

static void much(unsigned flags, size_t each) {
    size_t len = 8 << 20, total = 0;
    pthread_t thread;
    char *bytes = malloc(len + each);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | flags, 1);
    pthread_create(&thread, 0, pour, &len);
    for (int at_end = 0; !at_end;) {
        struct epoll_event event;
        if (epoll_wait(ep, &event, 1, LONG) != 1) { SAY("stuck at %zu", total); break; }
        for (;;) {
            ssize_t got = read(a, bytes + total, each);
            if (got > 0) total += (size_t)got;
            else at_end = got == 0;
            if (got <= 0 || !(flags & EPOLLET)) break;
        }
    }
    pthread_join(thread, 0);
    SAY("%zu bytes, %s", total, sum(bytes, total) == (unsigned)len ? "right" : "wrong");
    free(bytes);
}

CASE(much_level) { much(0, 4096); }
CASE(much_level_large) { much(0, 1 << 20); }
CASE(much_edge) { much(EPOLLET, 10000); }
CASE(much_odd) { much(0, 777); }
