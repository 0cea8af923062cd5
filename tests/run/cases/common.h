// What the cases share. Each case gets an epoll set and a connected pair of TCP sockets, and prints what it sees.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LONG 2000  // milliseconds in which an expected event comes
#define SHORT 20   // milliseconds in which none may come

extern const char *name_of_case;
extern int ep, a, b;  // the set, its socket, and the peer, which is in no set

#define SAY(...) (printf("%s: ", name_of_case), printf(__VA_ARGS__), putchar('\n'), fflush(stdout))
// Says what a call returns, and its errno where it fails.
#define SAY_CALL(what, call) say_result(what, (errno = 0, (long)(call)))
#define CHECK(what) ((what) ? (void)0 : (perror(#what), exit(3)))

// Defines a case and puts it on the list, in the order of the file.
#define CASE(name)                                                                        \
    static void name(void);                                                               \
    __attribute__((constructor)) static void add_##name(void) { add_case(#name, name); }  \
    static void name(void)

void add_case(const char *name, void (*run)(void));

void pair_of(int *one, int *other);
int ctl(int op, int fd, unsigned events, unsigned long data);
const char *text_of(unsigned bits);
void wait_and_say(const char *what, int timeout);
void put(int fd, const char *text);
void say_result(const char *what, long result);
void say_bytes(const char *what, ssize_t count, const char *bytes);
void say_read(const char *what, int fd, size_t len);
void say_peer(const char *what);
// Up to the end of the connection.
void say_rest_of_peer(const char *what);

// Closes a socket so that its peer is reset.
void reset(int fd);
void make_narrow(void);
unsigned sum(const char *bytes, size_t len);

// Four more sockets of the set are ready, so that a write to the first is queued.
void make_batch(void);
void end_batch(void);
