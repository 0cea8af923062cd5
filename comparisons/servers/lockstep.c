/* What one wake-up of a server costs that finds exactly K ready connections.

   One thread is client and server in turn: it sends to each connection, then serves until all is sent back, then reads.
   Only the serving is timed. No other thread takes part, so the figures repeat on a busy machine.

   lockstep [k=25] [size=512] [depth=1] [rounds=3000] [an option of the server] */
#define _GNU_SOURCE
#include "echo.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

static long k = 25, size = 512, depth = 1, rounds = 3000;

static void option(char *argument) {
    char *value = strchr(argument, '=');
    if (!value) {
        fprintf(stderr, "%s: expected name=value\n", argument);
        exit(2);
    }
    *value++ = 0;
    if (!strcmp(argument, "k"))
        k = atol(value);
    else if (!strcmp(argument, "size"))
        size = atol(value);
    else if (!strcmp(argument, "depth"))
        depth = atol(value);
    else if (!strcmp(argument, "rounds"))
        rounds = atol(value);
    else if (!server_option(argument, value)) {
        fprintf(stderr, "%s: the server has no such option\n", argument);
        exit(2);
    }
}

static double microseconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static int by_size(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

static int *connect_all(void) {
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    if (bind(listener, (void *)&address, len) || listen(listener, 4096) || getsockname(listener, (void *)&address, &len))
        die("listen");
    server_start(listener);
    int *clients = calloc(k, sizeof *clients);
    for (long i = 0; i < k; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(clients[i], (void *)&address, sizeof address))
            die("connect");
        setsockopt(clients[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    while (counters.accepted < (uint64_t)k)
        server_turn(1);
    server_turn(0); /* Hands over the receives of the last connections. */
    return clients;
}

static void send_all(int fd, const char *message) {
    for (long sent = 0; sent < size;) {
        ssize_t len = send(fd, message + sent, size - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (len < 0)
            die("send of the client: size or depth is too large");
        sent += len;
    }
}

static void check_all(int fd, char *back, const char *message) {
    long wanted = size * depth, len = 0;
    while (len < wanted) {
        ssize_t got = recv(fd, back + len, wanted - len, 0);
        if (got <= 0)
            die("recv");
        len += got;
    }
    for (long at = 0; at < wanted; at += size)
        if (memcmp(back + at, message, size)) {
            fputs("other bytes came back than were sent\n", stderr);
            exit(1);
        }
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        option(argv[i]);
    int *clients = connect_all();
    char *message = malloc(size), *back = malloc(size * depth);
    double *walls = calloc(rounds, sizeof *walls), *cpus = calloc(rounds, sizeof *cpus);
    long warm = rounds / 10, requests = k * depth;
    uint64_t calls = 0, turns = 0;
    memset(message, 'x', size);
    for (long round = -warm; round < rounds; round++) {
        for (long i = 0; i < k; i++)
            for (long d = 0; d < depth; d++)
                send_all(clients[i], message);
        uint64_t goal = counters.sent + (uint64_t)requests * size, calls_before = counters.calls;
        double wall = microseconds(CLOCK_MONOTONIC), cpu = microseconds(CLOCK_THREAD_CPUTIME_ID);
        while (counters.sent < goal) {
            server_turn(1);
            turns++;
        }
        cpu = microseconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
        wall = microseconds(CLOCK_MONOTONIC) - wall;
        calls += counters.calls - calls_before;
        if (round >= 0) {
            walls[round] = wall / requests;
            cpus[round] = cpu / requests;
        }
        for (long i = 0; i < k; i++)
            check_all(clients[i], back, message);
    }
    qsort(walls, rounds, sizeof *walls, by_size);
    qsort(cpus, rounds, sizeof *cpus, by_size);
    printf("{\"wall_med\":%.3f,\"wall_p10\":%.3f,\"cpu_med\":%.3f,\"cpu_p10\":%.3f,\"turns_per_round\":%.2f,"
           "\"calls_per_request\":%.4f}\n",
           walls[rounds / 2], walls[rounds / 10], cpus[rounds / 2], cpus[rounds / 10],
           (double)turns / (rounds + warm), (double)calls / ((rounds + warm) * requests));
    return 0;
}
