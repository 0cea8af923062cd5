/* Echo by epoll, level-triggered: one read and one write for each ready connection. */
#define _GNU_SOURCE
#include "echo.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 1024, BUFFER = 64 << 10 };

/* Bytes that the socket did not take, from `start` to `end`. No more is read until they are sent. */
struct backlog {
    char *bytes;
    size_t start, end;
};

OF_THREAD struct counters counters;
static OF_THREAD struct backlog *backlogs[MAX_DESCRIPTORS];
static OF_THREAD char buffer[BUFFER];
static OF_THREAD int set, listening;

int server_option(const char *name, const char *value) {
    (void)name, (void)value;
    return 0;
}

static void watch(int operation, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    counters.calls++;
    if (epoll_ctl(set, operation, fd, &event))
        die("epoll_ctl");
}

void server_start(int listener) {
    listening = listener;
    set = epoll_create1(EPOLL_CLOEXEC);
    if (set < 0)
        die("epoll_create1");
    watch(EPOLL_CTL_ADD, listener, EPOLLIN);
}

static void drop_backlog(int fd) {
    free(backlogs[fd]->bytes);
    free(backlogs[fd]);
    backlogs[fd] = NULL;
}

static void end(int fd) {
    if (backlogs[fd])
        drop_backlog(fd);
    counters.calls++;
    close(fd);
}

static void accept_all(void) {
    for (;;) {
        int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
        counters.calls++;
        if (fd < 0)
            return;
        if (fd >= MAX_DESCRIPTORS) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        counters.calls++;
        counters.accepted++;
        watch(EPOLL_CTL_ADD, fd, EPOLLIN);
    }
}

/* Returns how many bytes the socket took, or -1 where the connection has ended. */
static ssize_t put(int fd, const char *bytes, size_t len) {
    ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);
    counters.calls++;
    if (sent < 0 && errno != EAGAIN) {
        end(fd);
        return -1;
    }
    counters.sent += sent > 0 ? sent : 0;
    return sent > 0 ? sent : 0;
}

static void keep(int fd, const char *bytes, size_t len) {
    struct backlog *rest = calloc(1, sizeof *rest);
    if (!rest || !(rest->bytes = malloc(len)))
        die("malloc");
    memcpy(rest->bytes, bytes, len);
    rest->end = len;
    backlogs[fd] = rest;
    watch(EPOLL_CTL_MOD, fd, EPOLLOUT);
}

static void flush(int fd) {
    struct backlog *rest = backlogs[fd];
    ssize_t sent = put(fd, rest->bytes + rest->start, rest->end - rest->start);
    if (sent < 0)
        return;
    rest->start += sent;
    if (rest->start == rest->end) {
        drop_backlog(fd);
        watch(EPOLL_CTL_MOD, fd, EPOLLIN);
    }
}

static void echo(int fd) {
    ssize_t len = read(fd, buffer, sizeof buffer);
    counters.calls++;
    if (len <= 0) {
        if (len == 0 || errno != EAGAIN)
            end(fd);
        return;
    }
    ssize_t sent = put(fd, buffer, len);
    if (sent >= 0 && sent < len)
        keep(fd, buffer + sent, len - sent);
}

void server_turn(int wait) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(set, events, EVENTS, wait ? -1 : 0);
    counters.calls++;
    for (int i = 0; i < count; i++) {
        int fd = events[i].data.fd;
        if (fd == listening)
            accept_all();
        else if (backlogs[fd])
            flush(fd);
        else
            echo(fd);
    }
}
