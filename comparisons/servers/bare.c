/* Echo without waiting: a recv and a send for each connection, whether it is ready or not. No server can work so; for
   lockstep.c, where all connections are ready, it is what the calls alone cost. */
#define _GNU_SOURCE
#include "echo.h"
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum { BUFFER = 64 << 10 };

OF_THREAD struct counters counters;
static OF_THREAD int connections[MAX_DESCRIPTORS], listening;
static OF_THREAD char buffer[BUFFER];

int server_option(const char *name, const char *value) {
    (void)name, (void)value;
    return 0;
}

void server_start(int listener) { listening = listener; }

static void accept_all(void) {
    int fd, one = 1;
    while ((fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        if (counters.accepted == MAX_DESCRIPTORS)
            die("too many connections");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connections[counters.accepted++] = fd;
    }
}

/* Returns whether there was something. */
static int echo(int fd) {
    ssize_t len = recv(fd, buffer, sizeof buffer, 0);
    counters.calls++;
    if (len < 0 && errno == EAGAIN)
        return 0;
    if (len <= 0)
        die("recv");
    counters.calls++;
    if (send(fd, buffer, len, MSG_NOSIGNAL) != len)
        die("send: the socket does not take all");
    counters.sent += len;
    return 1;
}

void server_turn(int wait) {
    int any = 0;
    (void)wait;
    for (uint64_t i = 0; i < counters.accepted; i++)
        any |= echo(connections[i]);
    if (!any)
        accept_all();
}
