#include "common.h"

const char *name_of_case;
int ep, a, b;

static struct { const char *name; void (*run)(void); } cases[300];
static int count_of_cases;

void add_case(const char *name, void (*run)(void)) {
    CHECK(count_of_cases < 300);
    cases[count_of_cases].name = name;
    cases[count_of_cases++].run = run;
}

void pair_of(int *one, int *other) {
    int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    CHECK(listener >= 0 && !bind(listener, (void *)&address, len) && !listen(listener, 8));
    CHECK(!getsockname(listener, (void *)&address, &len));
    CHECK((*other = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    CHECK(!connect(*other, (void *)&address, sizeof address));
    CHECK((*one = accept4(listener, 0, 0, SOCK_NONBLOCK)) >= 0);
    setsockopt(*one, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(*other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    close(listener);
}

static void begin(void) {
    CHECK((ep = epoll_create1(0)) >= 0);
    pair_of(&a, &b);
}

static void end(void) {
    close(a);
    close(b);
    close(ep);
}

int ctl(int op, int fd, unsigned events, unsigned long data) {
    struct epoll_event event = {.events = events, .data.u64 = data};
    return epoll_ctl(ep, op, fd, &event) ? errno : 0;
}

const char *text_of(unsigned bits) {
    static char text[8][80];
    static int turn;
    char *to = text[turn++ & 7];
    *to = 0;
#define BIT(name) if (bits & EPOLL##name) strcat(to, *to ? "|" #name : #name)
    BIT(IN); BIT(OUT); BIT(RDHUP); BIT(HUP); BIT(ERR); BIT(PRI);
    return *to ? to : "-";
}

void wait_and_say(const char *what, int timeout) {
    struct epoll_event events[8];
    int count = epoll_wait(ep, events, 8, timeout);
    char line[400] = "";
    for (int i = 0; i < count; i++)
        sprintf(line + strlen(line), " %lu=%s", (unsigned long)events[i].data.u64, text_of(events[i].events));
    SAY("%s %d%s", what, count, line);
}

void put(int fd, const char *text) { CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text)); }

void say_result(const char *what, long result) {
    if (result < 0) SAY("%s %ld %s", what, result, strerror(errno));
    else SAY("%s %ld", what, result);
}

void say_bytes(const char *what, ssize_t count, const char *bytes) {
    if (count >= 0) SAY("%s %zd '%.*s'", what, count, (int)count, bytes);
    else SAY("%s %s", what, strerror(errno));
}

void say_read(const char *what, int fd, size_t len) {
    char bytes[4096];
    ssize_t count = read(fd, bytes, len);
    say_bytes(what, count, bytes);
}

void say_peer(const char *what) {
    char bytes[4096];
    ssize_t count = recv(b, bytes, sizeof bytes, 0);
    say_bytes(what, count, bytes);
}

void say_rest_of_peer(const char *what) {
    char bytes[4096];
    size_t total = 0;
    for (ssize_t got; (got = recv(b, bytes + total, sizeof bytes - total, 0)) > 0;) total += (size_t)got;
    say_bytes(what, (ssize_t)total, bytes);
}

// Makes both sides' kernels hold little.
void make_narrow(void) {
    int size = 4096;
    setsockopt(a, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(b, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

void reset(int fd) {
    struct linger now = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

unsigned sum(const char *bytes, size_t len) {
    unsigned all = 0;
    for (size_t i = 0; i < len; i++) all = all * 31 + (unsigned char)bytes[i];
    return all;
}

static int more[8];

void make_batch(void) {
    for (int i = 0; i < 8; i += 2) {
        pair_of(&more[i], &more[i + 1]);
        ctl(EPOLL_CTL_ADD, more[i], EPOLLIN, 100 + (unsigned)i);
        put(more[i + 1], "x");
    }
    struct epoll_event events[8];
    int count = 0;
    for (int i = 0; i < 100 && count < 5; i++) {
        count = epoll_wait(ep, events, 8, LONG);
        if (count < 5) usleep(1000);
    }
    SAY("batch %d", count);
}

void end_batch(void) {
    for (int i = 0; i < 8; i++) close(more[i]);
}

// A child ends even if the case that has forked it was ended.
static void limit_child(void) { alarm(20); }

int main(int argc, char **argv) {
    pthread_atfork(0, 0, limit_child);
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, 0, _IOLBF, 0);
    for (int i = 0; i < count_of_cases; i++) {
        if (argc > 1 && strcmp(argv[1], cases[i].name)) continue;
        name_of_case = cases[i].name;
        alarm(20);
        begin();
        cases[i].run();
        end();
        alarm(0);
    }
    return 0;
}
