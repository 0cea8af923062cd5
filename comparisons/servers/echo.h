/* An echo server of one thread, as the two programs that drive it see it: lockstep.c and server.c. */
#ifndef ECHO_H
#define ECHO_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Connections are kept in an array by descriptor. */
#define MAX_DESCRIPTORS 65536

/* Connections accepted, bytes sent back, and system calls made since the start. */
struct counters {
    uint64_t accepted, sent, calls;
};
/* What a server keeps is of its thread: server.c may start several. */
#define OF_THREAD _Thread_local
extern OF_THREAD struct counters counters;

/* Sets an option; returns 0 if the server has none of this name. */
int server_option(const char *name, const char *value);
/* Starts to accept on a listening socket that does not block. */
void server_start(int listener);
/* Handles what is ready. With `wait`, blocks until something is. */
void server_turn(int wait);

static inline void die(const char *what) {
    perror(what);
    exit(1);
}

#endif
