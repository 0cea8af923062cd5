#include "common.h"

// Descriptors of other kinds beside

CASE(others) {
    int pipes[2], e = eventfd(0, EFD_NONBLOCK);
    CHECK(!pipe(pipes));
    SAY("add %d %d %d", ctl(EPOLL_CTL_ADD, pipes[0], EPOLLIN, 2), ctl(EPOLL_CTL_ADD, e, EPOLLIN, 3),
        ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1));
    wait_and_say("none", SHORT);
    CHECK(write(pipes[1], "x", 1) == 1);
    wait_and_say("pipe", LONG);
    wait_and_say("pipe still", LONG);
    say_read("pipe", pipes[0], 1);
    wait_and_say("none", SHORT);
    CHECK(eventfd_write(e, 1) == 0);
    wait_and_say("eventfd", LONG);
    put(b, "x");
    usleep(1000);
    struct epoll_event events[4];
    int seen = 0;
    for (int i = 0; i < 4; i++)
        for (int k = 0, count = epoll_wait(ep, events, 4, LONG); k < count; k++) seen |= 1 << events[k].data.u64;
    SAY("seen %d", seen);
    eventfd_t value;
    eventfd_read(e, &value);
    say_read("socket", a, 1);
    wait_and_say("none", SHORT);
    close(pipes[0]);
    close(pipes[1]);
    close(e);
}

CASE(other_edge) {
    int e = eventfd(0, EFD_NONBLOCK);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    ctl(EPOLL_CTL_ADD, e, EPOLLIN | EPOLLET, 2);
    wait_and_say("none", 0);
    eventfd_write(e, 1);
    wait_and_say("edge", LONG);
    wait_and_say("none", SHORT);
    eventfd_write(e, 1);
    wait_and_say("edge", LONG);
    wait_and_say("none", SHORT);
    close(e);
}

CASE(listener) {
    int l = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), c = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    CHECK(!bind(l, (void *)&address, len) && !listen(l, 8) && !getsockname(l, (void *)&address, &len));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    ctl(EPOLL_CTL_ADD, l, EPOLLIN, 2);
    wait_and_say("none", 0);
    CHECK(!connect(c, (void *)&address, len));
    wait_and_say("listener", LONG);
    int s = accept4(l, 0, 0, SOCK_NONBLOCK);
    ctl(EPOLL_CTL_ADD, s, EPOLLIN | EPOLLRDHUP, 3);
    wait_and_say("none", SHORT);
    put(c, "x");
    wait_and_say("new", LONG);
    say_read("new", s, 10);
    close(c);
    wait_and_say("end", LONG);
    close(s);
    close(l);
    wait_and_say("none", SHORT);
}

CASE(connecting) {
    int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = -1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address, size = sizeof error;
    CHECK(!bind(l, (void *)&address, len) && !listen(l, 8) && !getsockname(l, (void *)&address, &len));
    connect(c, (void *)&address, len);
    ctl(EPOLL_CTL_ADD, c, EPOLLOUT, 4);
    wait_and_say("connected", LONG);
    getsockopt(c, SOL_SOCKET, SO_ERROR, &error, &size);
    SAY("error %d", error);
    ctl(EPOLL_CTL_MOD, c, EPOLLIN, 5);
    int s = accept(l, 0, 0);
    put(s, "x");
    wait_and_say("in", LONG);
    say_read("read", c, 10);
    close(l);
    close(c);
    close(s);
}

CASE(many) {
    enum { COUNT = 200 };
    int one[COUNT], other[COUNT], seen = 0;
    for (int i = 0; i < COUNT; i++) {
        pair_of(&one[i], &other[i]);
        ctl(EPOLL_CTL_ADD, one[i], EPOLLIN, (unsigned)i);
    }
    wait_and_say("none", 0);
    for (int round = 0; round < 20; round++) {
        int left = COUNT, wrong = 0;
        for (int i = 0; i < COUNT; i++) {
            char text[40];
            sprintf(text, "%d of round %d", i, round);
            put(other[i], text);
        }
        while (left) {
            struct epoll_event events[64];
            int count = epoll_wait(ep, events, 64, LONG);
            if (count <= 0) break;
            for (int i = 0; i < count; i++) {
                char text[40], expected[40];
                int number = (int)events[i].data.u64;
                ssize_t got = read(one[number], text, 40);
                sprintf(expected, "%d of round %d", number, round);
                wrong += got != (ssize_t)strlen(expected) || memcmp(text, expected, (size_t)got);
                CHECK(write(one[number], text, (size_t)got) == got);
                left--;
            }
        }
        epoll_wait(ep, &(struct epoll_event){0}, 1, 0);
        for (int i = 0; i < COUNT; i++) {
            char text[40], expected[40];
            ssize_t got = recv(other[i], text, 40, 0);
            sprintf(expected, "%d of round %d", i, round);
            wrong += got != (ssize_t)strlen(expected) || memcmp(text, expected, (size_t)got);
        }
        seen += left || wrong;
    }
    SAY("%d rounds wrong", seen);
    for (int i = 0; i < COUNT; i++) close(one[i]), close(other[i]);
}

CASE(stalled_reader_is_bounded) {
    // Without a read, no more than the kernel's buffers and a bound can be taken; the second time as well.
    static char bytes[65536];
    size_t most = 64 << 20;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    fcntl(b, F_SETFL, O_NONBLOCK);
    for (int times = 0; times < 2; times++) {
        size_t total = 0, all = 0;
        for (int idle = 0; idle < 10 && total < most;) {
            ssize_t got = send(b, bytes, sizeof bytes, MSG_NOSIGNAL);
            if (got > 0) total += (size_t)got, idle = 0;
            else idle++;
            epoll_wait(ep, &(struct epoll_event){0}, 1, got > 0 ? 0 : 5);
        }
        SAY("%s", total < most ? "bounded" : "unbounded");
        for (int idle = 0; all < total && idle < 100;) {
            ssize_t got = read(a, bytes, sizeof bytes);
            if (got > 0) all += (size_t)got;
            else idle++, epoll_wait(ep, &(struct epoll_event){0}, 1, 20);
        }
        SAY("%s", all == total ? "all came" : "some are missing");
    }
}

CASE(reused_numbers) {
    int wrong = 0;
    for (int i = 0; i < 200; i++) {
        int one, other;
        char text[20], got[20] = "";
        pair_of(&one, &other);
        ctl(EPOLL_CTL_ADD, one, EPOLLIN, (unsigned)i);
        sprintf(text, "connection %d", i);
        put(other, text);
        struct epoll_event event;
        int count = epoll_wait(ep, &event, 1, LONG);
        if (i % 3 == 0) wrong += count != 1 || read(one, got, 19) != (ssize_t)strlen(text) || strcmp(got, text);
        if (i % 2) close(one), close(other);
        else close(other), close(one);
    }
    SAY("%d wrong", wrong);
}

CASE(not_sockets) {
    char byte;
    struct iovec place = {&byte, 1};
    int file = open("/dev/null", O_RDWR);
    SAY("readv %zd", readv(file, &place, 1));
    SAY("writev %zd", writev(file, &place, 1));
    SAY_CALL("recv", recv(file, &byte, 1, 0));
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, file, EPOLLIN, 1)));
    SAY_CALL("wait", epoll_wait(file, &(struct epoll_event){0}, 1, 0));
    SAY("close %d", close(file));
    SAY_CALL("read", read(file, &byte, 1));
    SAY_CALL("wait", epoll_wait(file, &(struct epoll_event){0}, 1, 0));
}

CASE(errno_is_kept) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    errno = 77;
    wait_and_say("in", LONG);
    char bytes[10];
    ssize_t got = read(a, bytes, 10);
    got += write(a, bytes, (size_t)got);
    SAY("%zd %d", got, errno);
}
