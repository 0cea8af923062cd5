// Cases of epoll on TCP sockets. Prints what each sees; the output must be the same on plain epoll and under `proactor run`.
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
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LONG 2000  // milliseconds in which an expected event comes
#define SHORT 20   // milliseconds in which none may come

static const char *name_of_case;
static int ep, a, b;  // the set, its socket, and the peer, which is in no set

#define SAY(...) (printf("%s: ", name_of_case), printf(__VA_ARGS__), putchar('\n'), fflush(stdout))
#define CHECK(what) ((what) ? (void)0 : (perror(#what), exit(3)))

static void pair_of(int *one, int *other) {
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

static int ctl(int op, int fd, unsigned events, unsigned long data) {
    struct epoll_event event = {.events = events, .data.u64 = data};
    return epoll_ctl(ep, op, fd, &event) ? errno : 0;
}

static const char *text_of(unsigned bits) {
    static char text[8][80];
    static int turn;
    char *to = text[turn++ & 7];
    *to = 0;
#define BIT(name) if (bits & EPOLL##name) strcat(to, *to ? "|" #name : #name)
    BIT(IN); BIT(OUT); BIT(RDHUP); BIT(HUP); BIT(ERR); BIT(PRI);
    return *to ? to : "-";
}

static void wait_and_say(const char *what, int timeout) {
    struct epoll_event events[8];
    int count = epoll_wait(ep, events, 8, timeout);
    char line[400] = "";
    for (int i = 0; i < count; i++)
        sprintf(line + strlen(line), " %lu=%s", (unsigned long)events[i].data.u64, text_of(events[i].events));
    SAY("%s %d%s", what, count, line);
}

static void put(int fd, const char *text) { CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text)); }

static void say_bytes(const char *what, ssize_t count, const char *bytes) {
    if (count >= 0) SAY("%s %zd '%.*s'", what, count, (int)count, bytes);
    else SAY("%s %s", what, strerror(errno));
}

static void say_read(const char *what, int fd, size_t len) {
    char bytes[4096];
    ssize_t count = read(fd, bytes, len);
    say_bytes(what, count, bytes);
}

static void say_peer(const char *what) {
    char bytes[4096];
    ssize_t count = recv(b, bytes, sizeof bytes, 0);
    say_bytes(what, count, bytes);
}

// Readiness

static void level(void) {
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1));
    wait_and_say("none", SHORT);
    put(b, "hello");
    wait_and_say("in", LONG);
    wait_and_say("still", LONG);
    say_read("part", a, 2);
    wait_and_say("rest", LONG);
    say_read("rest", a, 100);
    wait_and_say("empty", SHORT);
    say_read("nothing", a, 100);
}

static void edge(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 2);
    wait_and_say("none", SHORT);
    put(b, "hello");
    wait_and_say("edge", LONG);
    wait_and_say("no second", SHORT);
    say_read("part", a, 2);
    wait_and_say("no third", SHORT);
    put(b, "more");
    wait_and_say("new edge", LONG);
    say_read("all", a, 100);
    say_read("nothing", a, 100);
    wait_and_say("empty", SHORT);
}

static void edge_both(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT | EPOLLET, 3);
    wait_and_say("out", LONG);
    wait_and_say("no second", SHORT);
    put(b, "x");
    wait_and_say("both", LONG);
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
}

static void one_shot(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 4);
    put(b, "one");
    wait_and_say("shot", LONG);
    wait_and_say("fired", SHORT);
    put(b, "two");
    wait_and_say("fired still", SHORT);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT, 5));
    wait_and_say("again", LONG);
    say_read("all", a, 100);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT, 6));
    wait_and_say("none", SHORT);
}

static void one_shot_hup(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 4);
    put(b, "x");
    wait_and_say("shot", LONG);
    close(b);
    wait_and_say("fired", SHORT);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLRDHUP, 7);
    wait_and_say("again", LONG);
}

static void bytes_before_add(void) {
    put(b, "early");
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("in", LONG);
    say_read("read", a, 100);
}

static void bytes_before_add_edge(void) {
    put(b, "early");
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    wait_and_say("in", 0);
    wait_and_say("none", 0);
    say_read("read", a, 100);
}

static void read_without_wait(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    put(b, "direct");
    say_read("read", a, 100);
    wait_and_say("none", SHORT);
    put(b, "again");
    wait_and_say("in", LONG);
    say_read("read", a, 100);
    put(b, "third");
    say_read("third", a, 100);
    say_read("nothing", a, 100);
}

static void read_before_wait(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "never waited");
    say_read("read", a, 100);
    say_read("nothing", a, 100);
}

static void out_only(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLOUT, 1);
    wait_and_say("out", LONG);
    wait_and_say("still", LONG);
    put(b, "x");
    wait_and_say("not in", LONG);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN, 2));
    wait_and_say("in", LONG);
    say_read("read", a, 100);
}

static void no_interest(void) {
    ctl(EPOLL_CTL_ADD, a, 0, 9);
    put(b, "x");
    wait_and_say("none", SHORT);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN, 9);
    wait_and_say("in", LONG);
}

static void mod_rearms_edge(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    put(b, "x");
    wait_and_say("edge", LONG);
    wait_and_say("none", SHORT);
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLET, 2);
    wait_and_say("edge again", LONG);
    wait_and_say("none", SHORT);
}

static void data_word(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLOUT, 0xfedcba9876543210ul);
    wait_and_say("data", LONG);
    ctl(EPOLL_CTL_MOD, a, EPOLLOUT, 17);
    wait_and_say("data", LONG);
}

// epoll_ctl

static void ctl_errors(void) {
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN, 1)));
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1)));
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1)));
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN, 1)));
    SAY("bad op %s", strerror(ctl(77, a, EPOLLIN, 1)));
    SAY("bad fd %s", strerror(ctl(EPOLL_CTL_ADD, 999, EPOLLIN, 1)));
    SAY("itself %s", strerror(ctl(EPOLL_CTL_ADD, ep, EPOLLIN, 1)));
    SAY("no set %s", strerror(epoll_ctl(a, EPOLL_CTL_ADD, b, &(struct epoll_event){.events = EPOLLIN}) ? errno : 0));
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1)));
    SAY("no event %s", strerror(epoll_ctl(ep, EPOLL_CTL_MOD, a, 0) ? errno : 0));
}

static void ctl_after_wait(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1)));
    put(b, "x");
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    wait_and_say("none", SHORT);
    say_read("read", a, 100);
    put(b, "y");
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2)));
    wait_and_say("in", LONG);
    say_read("read", a, 100);
}

static void del_with_bytes(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("one", a, 1);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    wait_and_say("none", SHORT);
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN, 1)));
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    say_read("two", a, 1);
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2));
    wait_and_say("in", LONG);
    say_read("three", a, 10);
    wait_and_say("none", SHORT);
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("rest", a, 10);
}

static void closed_member(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    wait_and_say("in", LONG);
    close(a);
    wait_and_say("gone", SHORT);
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    int before = a;
    close(b);
    pair_of(&a, &b);
    (void)before;
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2)));
    wait_and_say("none of the old one", SHORT);
    say_read("nothing", a, 10);
    put(b, "new");
    wait_and_say("in", LONG);
    say_read("new", a, 10);
}

static void max_events(void) {
    struct epoll_event events[4];
    int e = eventfd(1, EFD_NONBLOCK), seen[3] = {0};
    ctl(EPOLL_CTL_ADD, e, EPOLLIN, 1);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2);
    put(b, "x");
    SAY("zero %d %s", epoll_wait(ep, events, 0, 0), strerror(errno));
    SAY("negative %d %s", epoll_wait(ep, events, -1, 0), strerror(errno));
    for (int i = 0; i < 20; i++)
        if (epoll_wait(ep, events, 1, LONG) == 1) seen[events[0].data.u64]++;
    SAY("neither starves: %s", seen[1] >= 5 && seen[2] >= 5 ? "yes" : "no");
    close(e);
}

// Ends of connections

static void peer_shuts(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 1);
    put(b, "last");
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("end", LONG);
    say_read("read", a, 100);
    wait_and_say("end", LONG);
    say_read("eof", a, 100);
    say_read("eof", a, 100);
    wait_and_say("end still", LONG);
    put(a, "reply");
    say_peer("peer");
    shutdown(a, SHUT_WR);
    wait_and_say("both", LONG);
    say_peer("peer");
}

static void peer_shuts_out_only(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLOUT | EPOLLRDHUP, 1);
    wait_and_say("out", LONG);
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("out and end", LONG);
}

static void peer_shuts_edge(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP | EPOLLET, 1);
    wait_and_say("none", 0);
    shutdown(b, SHUT_WR);
    wait_and_say("end", LONG);
    wait_and_say("no second", SHORT);
    say_read("eof", a, 10);
    wait_and_say("no third", SHORT);
}

static void both_shut(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT | EPOLLRDHUP, 1);
    wait_and_say("out", LONG);
    shutdown(a, SHUT_WR);
    wait_and_say("out", LONG);
    say_peer("eof");
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("all", LONG);
    SAY("write %zd %s", send(a, "x", 1, MSG_NOSIGNAL), strerror(errno));
}

static void shut_read(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 1);
    wait_and_say("none", 0);
    shutdown(a, SHUT_RD);
    wait_and_say("end", LONG);
    say_read("eof", a, 10);
}

static void reset(int fd) {
    struct linger now = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

static void peer_resets(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 1);
    wait_and_say("none", 0);
    reset(b);
    wait_and_say("reset", LONG);
    say_read("first", a, 10);
    say_read("second", a, 10);
    wait_and_say("after", LONG);
}

static void peer_resets_error(void) {
    int error = -1;
    socklen_t len = sizeof error;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    reset(b);
    wait_and_say("reset", LONG);
    getsockopt(a, SOL_SOCKET, SO_ERROR, &error, &len);
    SAY("error %s", strerror(error));
    getsockopt(a, SOL_SOCKET, SO_ERROR, &error, &len);
    SAY("error %s", strerror(error));
    say_read("then", a, 10);
}

static void reset_with_bytes(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    put(b, "before");
    wait_and_say("in", LONG);
    reset(b);
    usleep(20000);
    wait_and_say("in and reset", LONG);
    say_read("read", a, 100);
    say_read("read", a, 100);
    say_read("read", a, 100);
}

static void write_after_reset(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    reset(b);
    wait_and_say("reset", LONG);
    SAY("write %zd %s", send(a, "x", 1, MSG_NOSIGNAL), strerror(errno));
    SAY("write %zd %s", send(a, "x", 1, MSG_NOSIGNAL), strerror(errno));
}

static void close_with_bytes_resets(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "unread");
    wait_and_say("in", LONG);
    close(a);
    say_peer("peer");
    a = -1;
}

static void close_without_bytes_ends(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    put(a, "answer");
    close(a);
    say_peer("peer");
    say_peer("peer");
    a = -1;
}

// Kinds of reads

static void reads(void) {
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
    SAY("peek nothing %zd %s", recv(a, two, 4, MSG_PEEK), strerror(errno));
    SAY("no pieces %zd", readv(a, places, 0));
}

static void pieces(void) {
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

static unsigned sum(const char *bytes, size_t len) {
    unsigned all = 0;
    for (size_t i = 0; i < len; i++) all = all * 31 + (unsigned char)bytes[i];
    return all;
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

static void much_level(void) { much(0, 4096); }
static void much_level_large(void) { much(0, 1 << 20); }
static void much_edge(void) { much(EPOLLET, 10000); }
static void much_odd(void) { much(0, 777); }

// Writes

static void *drain(void *arg) {
    char *bytes = malloc(1 << 20);
    unsigned *all = arg;
    ssize_t got;
    while ((got = recv(b, bytes, 1 << 20, 0)) > 0)
        for (ssize_t i = 0; i < got; i++) all[0] = all[0] * 31 + (unsigned char)bytes[i], all[1]++;
    free(bytes);
    return 0;
}

static void pour_out(unsigned flags, size_t each) {
    size_t len = 8 << 20, done = 0;
    unsigned all[2] = {0};
    char *bytes = malloc(len);
    pthread_t thread;
    for (size_t i = 0; i < len; i++) bytes[i] = (char)(i * 7 + i / 251);
    ctl(EPOLL_CTL_ADD, a, EPOLLOUT | flags, 1);
    wait_and_say("out", LONG);
    ssize_t got = 1;
    while (got > 0 && done < len)
        if ((got = send(a, bytes + done, len - done < each ? len - done : each, MSG_NOSIGNAL)) > 0) done += (size_t)got;
    SAY("full %s", got < 0 ? strerror(errno) : "never");
    wait_and_say("full", SHORT);
    pthread_create(&thread, 0, drain, all);
    while (done < len) {
        struct epoll_event event;
        if (epoll_wait(ep, &event, 1, LONG) != 1) { SAY("stuck"); break; }
        while (done < len && (got = send(a, bytes + done, len - done < each ? len - done : each, MSG_NOSIGNAL)) > 0)
            done += (size_t)got;
    }
    close(a);
    a = -1;
    pthread_join(thread, 0);
    SAY("%u bytes, %s", all[1], all[0] == sum(bytes, len) ? "right" : "wrong");
    free(bytes);
}

static void out_level(void) { pour_out(0, 4096); }
static void out_edge(void) { pour_out(EPOLLET, 100000); }

// Four more sockets are ready, so that a write is queued.
static int more[8];

static void make_batch(void) {
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

static void end_batch(void) {
    for (int i = 0; i < 8; i++) close(more[i]);
}

static void queued_then_wait(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY("write %zd", write(a, "one ", 4));
    struct iovec two[2] = {{"two ", 4}, {"three ", 6}};
    SAY("writev %zd", writev(a, two, 2));
    SAY("send %zd", send(a, "four", 4, MSG_NOSIGNAL));
    wait_and_say("wait", 0);
    usleep(1000);
    say_peer("peer");
    end_batch();
}

static void queued_then_close(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    say_read("read", a, 10);
    SAY("write %zd", write(a, "bye", 3));
    close(a);
    say_peer("peer");
    say_peer("peer");
    a = -1;
    end_batch();
}

static void queued_then_shutdown(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY("write %zd", write(a, "bye", 3));
    SAY("shutdown %d", shutdown(a, SHUT_WR));
    say_peer("peer");
    say_peer("peer");
    end_batch();
}

static void queued_then_sendfile(void) {
    FILE *file = tmpfile();
    fputs("of a file", file);
    fflush(file);
    off_t from = 0;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY("write %zd", write(a, "head ", 5));
    SAY("sendfile %zd", sendfile(a, fileno(file), &from, 9));
    SAY("write %zd", write(a, " tail", 5));
    wait_and_say("wait", 0);
    shutdown(a, SHUT_WR);
    char bytes[100];
    size_t total = 0;
    for (ssize_t got; (got = recv(b, bytes + total, 50, 0)) > 0;) total += (size_t)got;
    say_bytes("peer", (ssize_t)total, bytes);
    fclose(file);
    end_batch();
}

static void queued_then_fork(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY("write %zd", write(a, "once", 4));
    pid_t child = fork();
    if (!child) _exit(0);
    waitpid(child, 0, 0);
    wait_and_say("wait", 0);
    shutdown(a, SHUT_WR);
    say_peer("peer");
    say_peer("peer");
    end_batch();
}

static void queued_then_end(int executes) {
    pid_t child = fork();
    if (!child) {
        CHECK((ep = epoll_create1(0)) >= 0);
        ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
        put(b, "x");
        make_batch();
        SAY("write %zd", write(a, "last words", 10));
        char *arguments[] = {"true", 0};
        if (executes) execv("/bin/true", arguments);
        _exit(0);
    }
    waitpid(child, 0, 0);
    say_peer("peer");
}

static void queued_then_exit(void) { queued_then_end(0); }
static void queued_then_exec(void) { queued_then_end(1); }

static void queued_then_dup(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY("write %zd", write(a, "first ", 6));
    int copy = dup(a);
    SAY("write %zd", write(copy, "second ", 7));
    SAY("write %zd", write(a, "third", 5));
    shutdown(a, SHUT_WR);
    char bytes[100];
    size_t total = 0;
    for (ssize_t got; (got = recv(b, bytes + total, 50, 0)) > 0;) total += (size_t)got;
    say_bytes("peer", (ssize_t)total, bytes);
    close(copy);
    end_batch();
}

// What is handed back

static void duplicated(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abcdef");
    wait_and_say("in", LONG);
    say_read("one", a, 1);
    int copy = dup(a);
    wait_and_say("in", LONG);
    say_read("original", a, 5);
    put(b, "ghi");
    wait_and_say("in", LONG);
    say_read("copy", copy, 10);
    wait_and_say("none", SHORT);
    close(a);
    put(b, "jkl");
    wait_and_say("in still", LONG);
    say_read("copy", copy, 10);
    close(copy);
    a = -1;
}

static void replaced(void) {
    int other[2];
    CHECK(!pipe(other));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    SAY("dup2 %d", dup2(other[0], a) == a);
    say_peer("eof");
    wait_and_say("gone", SHORT);
    CHECK(write(other[1], "pipe", 4) == 4);
    say_read("pipe", a, 10);
    close(other[0]);
    close(other[1]);
}

static void made_blocking(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    int flags = fcntl(a, F_GETFL);
    fcntl(a, F_SETFL, flags & ~O_NONBLOCK);
    say_read("memory first", a, 10);
    put(b, "def");
    say_read("then the kernel", a, 10);
    fcntl(a, F_SETFL, flags);
    wait_and_say("none", SHORT);
    put(b, "ghi");
    wait_and_say("in", LONG);
}

static void made_blocking_by_ioctl(void) {
    int off = 0;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("ioctl %d", ioctl(a, FIONBIO, &off));
    say_read("memory first", a, 10);
    put(b, "def");
    say_read("then the kernel", a, 10);
}

static void polled(void) {
    struct pollfd entry = {.fd = a, .events = POLLIN};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY("poll %d", poll(&entry, 1, 0));
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("poll %d %x", poll(&entry, 1, LONG), entry.revents);
    say_read("read", a, 2);
    SAY("poll %d %x", poll(&entry, 1, 0), entry.revents);
    say_read("read", a, 2);
    SAY("poll %d", poll(&entry, 1, 0));
    wait_and_say("none", SHORT);
}

static void polled_with_bytes(void) {
    struct pollfd entry = {.fd = a, .events = POLLIN | POLLOUT};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("poll %d %x", poll(&entry, 1, LONG), entry.revents);
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    SAY("poll %d %x", poll(&entry, 1, LONG), entry.revents);
}

static void selected(void) {
    fd_set set;
    struct timeval none = {0, 0};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    FD_ZERO(&set);
    FD_SET(a, &set);
    int count = select(a + 1, &set, 0, 0, &none);
    SAY("select %d %d", count, !!FD_ISSET(a, &set));
    say_read("read", a, 10);
    FD_ZERO(&set);
    FD_SET(a, &set);
    SAY("select %d", select(a + 1, &set, 0, 0, &none));
}

static void streamed(void) {
    char line[20];
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    FILE *file = fdopen(a, "r");
    put(b, "a line\n");
    wait_and_say("in", LONG);
    SAY("fgets %s", fgets(line, 20, file) ? "a line" : "nothing");
    fclose(file);
    say_peer("eof");
    a = -1;
}

static void urgent(void) {
    char byte = 0;
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLPRI, 1));
    CHECK(send(b, "!", 1, MSG_OOB) == 1);
    wait_and_say("pri", LONG);
    SAY("recv %zd %c", recv(a, &byte, 1, MSG_OOB), byte);
}

static void two_sets(void) {
    int other = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 8};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY("add %d", epoll_ctl(other, EPOLL_CTL_ADD, a, &event));
    put(b, "x");
    wait_and_say("in", LONG);
    SAY("other %d", epoll_wait(other, &event, 1, LONG));
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
    SAY("other %d", epoll_wait(other, &event, 1, SHORT));
    close(other);
}

static void nested(void) {
    int outer = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 8};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, ep, &event));
    SAY("outer %d", epoll_wait(outer, &event, 1, SHORT));
    put(b, "x");
    SAY("outer %d", epoll_wait(outer, &event, 1, LONG));
    wait_and_say("inner", LONG);
    say_read("read", a, 10);
    SAY("outer %d", epoll_wait(outer, &event, 1, SHORT));
    close(outer);
}

static void nested_before(void) {
    int outer = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 8};
    SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, ep, &event));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    SAY("outer %d", epoll_wait(outer, &event, 1, LONG));
    wait_and_say("inner", LONG);
    close(outer);
}

static void polled_set(void) {
    struct pollfd entry = {.fd = ep, .events = POLLIN};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY("poll %d", poll(&entry, 1, SHORT));
    put(b, "x");
    SAY("poll %d", poll(&entry, 1, LONG));
    wait_and_say("in", LONG);
}

static void duplicated_set(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    int copy = dup(ep);
    struct epoll_event event;
    put(b, "x");
    SAY("copy %d", epoll_wait(copy, &event, 1, LONG));
    wait_and_say("in", LONG);
    close(copy);
}

static void closed_set(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("one", a, 1);
    close(ep);
    say_read("rest", a, 10);
    put(b, "def");
    say_read("def", a, 10);
    CHECK((ep = epoll_create1(0)) >= 0);
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2));
    put(b, "ghi");
    wait_and_say("in", LONG);
    say_read("ghi", a, 10);
}

// splice

static void say_splice(const char *what, int to, size_t len, unsigned flags) {
    ssize_t count = splice(a, 0, to, 0, len, flags);
    if (count >= 0) SAY("%s %zd", what, count);
    else SAY("%s %s", what, strerror(errno));
}

static void spliced(void) {
    int ends[2];
    CHECK(!pipe(ends));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "hello");
    wait_and_say("in", LONG);
    say_splice("part", ends[1], 2, 0);
    say_splice("rest", ends[1], 100, 0);
    say_splice("nothing", ends[1], 100, SPLICE_F_NONBLOCK);
    put(b, "more");
    wait_and_say("in", LONG);
    say_splice("more", ends[1], 100, 0);
    say_read("pipe", ends[0], 100);
    shutdown(b, SHUT_WR);
    wait_and_say("end", LONG);
    say_splice("end", ends[1], 100, 0);
    close(ends[0]), close(ends[1]);
}

static int pipe_signals;
static void count_pipe_signal(int number) { (void)number, pipe_signals++; }

static void spliced_to_closed_pipe(void) {
    int ends[2];
    CHECK(!pipe(ends));
    close(ends[0]);
    pipe_signals = 0;
    signal(SIGPIPE, count_pipe_signal);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "hello");
    wait_and_say("in", LONG);
    say_splice("closed", ends[1], 100, 0);
    SAY("%d signals", pipe_signals);
    signal(SIGPIPE, SIG_IGN);
    say_read("all of it", a, 100);
    close(ends[1]);
}

static void spliced_to_full_pipe(void) {
    int ends[2];
    char bytes[4096] = "";
    CHECK(!pipe2(ends, O_NONBLOCK));
    while (write(ends[1], bytes, sizeof bytes) > 0) {}
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "hello");
    wait_and_say("in", LONG);
    say_splice("full", ends[1], 100, 0);
    fcntl(ends[1], F_SETFL, 0);
    say_splice("full", ends[1], 100, SPLICE_F_NONBLOCK);
    say_read("all of it", a, 100);
    close(ends[0]), close(ends[1]);
}

static void *empty_later(void *pipe) {
    char bytes[65536];
    usleep(SHORT * 1000);
    ssize_t got = read(*(int *)pipe, bytes, sizeof bytes);
    return (void *)got;
}

static void spliced_waits_for_room(void) {
    int ends[2];
    char bytes[4096] = "";
    pthread_t thread;
    CHECK(!pipe2(ends, O_NONBLOCK));
    while (write(ends[1], bytes, sizeof bytes) > 0) {}
    fcntl(ends[1], F_SETFL, 0);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "hello");
    wait_and_say("in", LONG);
    CHECK(!pthread_create(&thread, 0, empty_later, &ends[0]));
    say_splice("waited", ends[1], 100, 0);
    pthread_join(thread, 0);
    say_read("pipe", ends[0], 100);
    close(ends[0]), close(ends[1]);
}

static void spliced_to_what_is_no_pipe(void) {
    FILE *file = tmpfile();
    int ends[2];
    CHECK(!pipe(ends));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "hello");
    wait_and_say("in", LONG);
    say_splice("file", fileno(file), 100, 0);
    say_splice("socket", b, 100, 0);
    say_splice("read end", ends[0], 100, 0);
    say_splice("closed", 1000, 100, 0);
    say_read("all of it", a, 100);
    close(ends[0]), close(ends[1]);
    fclose(file);
}

// Threads, forks, signals, time

static void *wait_there(void *arg) {
    struct epoll_event event;
    *(int *)arg = epoll_wait(ep, &event, 1, LONG);
    return 0;
}

static void second_thread(void) {
    pthread_t thread;
    int count = -1;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("one", a, 1);
    pthread_create(&thread, 0, wait_there, &count);
    pthread_join(thread, 0);
    SAY("thread %d", count);
    say_read("rest", a, 10);
    wait_and_say("none", SHORT);
}

static void *read_there(void *arg) {
    char bytes[10];
    usleep(20000);
    put(b, "abc");
    usleep(20000);
    *(int *)arg = (int)read(a, bytes, 10);
    put(b, "def");
    return 0;
}

static void reader_in_another_thread(void) {
    pthread_t thread;
    int count = -1, e = eventfd(0, EFD_NONBLOCK);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    ctl(EPOLL_CTL_ADD, e, EPOLLIN, 2);
    pthread_create(&thread, 0, read_there, &count);
    wait_and_say("in", LONG);
    pthread_join(thread, 0);
    SAY("thread read %d", count);
    wait_and_say("in", LONG);
    say_read("rest", a, 10);
    close(e);
}

static void *wait_and_read_there(void *arg) {
    char bytes[10];
    struct epoll_event event;
    *(int *)arg = epoll_wait(ep, &event, 1, LONG) == 1 ? (int)read(a, bytes, 10) : -1;
    return 0;
}

static void waiter_in_another_thread(void) {
    pthread_t thread;
    int count = -1;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    pthread_create(&thread, 0, wait_and_read_there, &count);
    usleep(20000);
    wait_and_say("none here", 0);
    put(b, "abc");
    pthread_join(thread, 0);
    SAY("thread %d", count);
}

static void *add_there(void *arg) {
    (void)arg;
    usleep(20000);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    return 0;
}

static void added_during_wait(void) {
    pthread_t thread;
    int c, d;
    pair_of(&c, &d);
    ctl(EPOLL_CTL_ADD, c, EPOLLIN, 2);
    pthread_create(&thread, 0, add_there, 0);
    wait_and_say("in", LONG);
    pthread_join(thread, 0);
    say_read("read", a, 10);
    close(c);
    close(d);
}

#define AT_ONCE 8
static pthread_barrier_t all_ready;

static void *serve_one(void *unused) {
    int set = epoll_create1(0), one, other;
    char bytes[10];
    struct epoll_event event = {.events = EPOLLIN};
    (void)unused;
    pair_of(&one, &other);
    put(other, "hello");
    pthread_barrier_wait(&all_ready);
    long seen = !epoll_ctl(set, EPOLL_CTL_ADD, one, &event) && epoll_wait(set, &event, 1, LONG) == 1;
    seen += read(one, bytes, 10) == 5;
    close(one), close(other), close(set);
    return (void *)seen;
}

static void sets_made_at_once(void) {
    pthread_t threads[AT_ONCE];
    long seen = 0;
    CHECK(!pthread_barrier_init(&all_ready, 0, AT_ONCE));
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < AT_ONCE; i++) CHECK(!pthread_create(&threads[i], 0, serve_one, 0));
        for (int i = 0; i < AT_ONCE; i++) {
            void *result;
            pthread_join(threads[i], &result);
            seen += (long)result;
        }
    }
    SAY("%ld", seen);
}

static void thread_ends(void) {
    pthread_t thread;
    int count = -1;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    pthread_create(&thread, 0, wait_there, &count);
    pthread_join(thread, 0);
    SAY("thread %d", count);
    put(b, "def");
    wait_and_say("in", LONG);
    char bytes[10];
    size_t total = 0;
    for (ssize_t got; (got = read(a, bytes + total, 10 - total)) > 0;) total += (size_t)got;
    say_bytes("all", (ssize_t)total, bytes);
    wait_and_say("none", SHORT);
}

static void forked(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abcdef");
    wait_and_say("in", LONG);
    say_read("one", a, 1);
    pid_t child = fork();
    if (!child) {
        say_read("child", a, 2);
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, 0, 0);
    say_read("parent", a, 2);
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
    put(b, "ghi");
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
}

static void forked_without_memory(void) {
    // Each byte goes to one of the processes, also where there is no memory that they could share.
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    struct rlimit before, none;
    CHECK(!getrlimit(RLIMIT_AS, &before));
    none = before;
    none.rlim_cur = 1;
    CHECK(!setrlimit(RLIMIT_AS, &none));
    char bytes[10];
    pid_t child = fork();
    if (!child) {
        ssize_t got = read(a, bytes, 10);
        _exit(got > 0 ? (int)got : 0);
    }
    CHECK(!setrlimit(RLIMIT_AS, &before));
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    ssize_t got = read(a, bytes, 10);
    SAY("%zd bytes", WEXITSTATUS(status) + (got > 0 ? got : 0));
}

static void forked_waits(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    pid_t child = fork();
    if (!child) {
        wait_and_say("child", LONG);
        say_read("child", a, 10);
        fflush(stdout);
        _exit(0);
    }
    put(b, "abc");
    waitpid(child, 0, 0);
    wait_and_say("none", SHORT);
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
}

static void forked_closes(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    pid_t child = fork();
    if (!child) {
        close(a);
        close(ep);
        _exit(0);
    }
    waitpid(child, 0, 0);
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
    put(a, "reply");
    say_peer("peer");
}

static void forked_executes(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("system %d", system("true"));
    say_read("read", a, 10);
    put(b, "def");
    wait_and_say("in", LONG);
}

static void vfork_closes(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    pid_t child = vfork();
    if (!child) {
        close(a);
        close(ep);
        close(b);
        execl("/bin/true", "true", (char *)0);
        _exit(1);
    }
    waitpid(child, 0, 0);
    say_read("parent", a, 10);
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
}

static volatile sig_atomic_t signalled;
static void handler(int number) { (void)number; signalled++; }

static void timer(int milliseconds) {
    struct itimerval time = {.it_value = {milliseconds / 1000, milliseconds % 1000 * 1000}};
    setitimer(ITIMER_REAL, &time, 0);
}

static void interrupted(void) {
    struct sigaction action = {.sa_handler = handler}, before;
    sigaction(SIGALRM, &action, &before);
    signalled = 0;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    timer(20);
    struct epoll_event event;
    int count = epoll_wait(ep, &event, 1, LONG);
    SAY("wait %d %s, %d signal", count, strerror(errno), (int)signalled);
    timer(20);
    count = epoll_wait(ep, &event, 1, LONG);
    SAY("wait %d %s, %d signals", count, strerror(errno), (int)signalled);
    put(b, "x");
    wait_and_say("in", LONG);
    sigaction(SIGALRM, &before, 0);
}

static void interrupted_restart(void) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    sigaction(SIGALRM, &action, &before);
    signalled = 0;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    timer(20);
    struct epoll_event event;
    int count = epoll_wait(ep, &event, 1, LONG);
    SAY("wait %d %s, %d signal", count, strerror(errno), (int)signalled);
    sigaction(SIGALRM, &before, 0);
}

static void masked(void) {
    struct sigaction action = {.sa_handler = handler}, before;
    sigset_t blocked, none;
    sigemptyset(&none);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigaction(SIGUSR1, &action, &before);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    signalled = 0;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    raise(SIGUSR1);
    struct epoll_event event;
    int count = epoll_wait(ep, &event, 1, SHORT);
    SAY("blocked %d, %d signals", count, (int)signalled);
    count = epoll_pwait(ep, &event, 1, LONG, &none);
    SAY("pwait %d %s, %d signals", count, strerror(errno), (int)signalled);
    count = epoll_pwait(ep, &event, 1, SHORT, &none);
    SAY("pwait %d", count);
    sigset_t now;
    sigprocmask(0, 0, &now);
    SAY("mask is back: %d", sigismember(&now, SIGUSR1));
    count = epoll_pwait2(ep, &event, 1, &(struct timespec){0, 20000000}, &none);
    SAY("pwait2 %d", count);
    put(b, "x");
    count = epoll_pwait2(ep, &event, 1, 0, &none);
    SAY("pwait2 %d", count);
    count = epoll_pwait2(ep, &event, 1, &(struct timespec){0, -1}, &none);
    SAY("pwait2 %d %s", count, strerror(errno));
    sigprocmask(SIG_UNBLOCK, &blocked, 0);
    sigaction(SIGUSR1, &before, 0);
}

static long elapsed(const struct timespec *from) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - from->tv_sec) * 1000 + (now.tv_nsec - from->tv_nsec) / 1000000;
}

static void timeouts(void) {
    struct epoll_event event;
    struct timespec from;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    clock_gettime(CLOCK_MONOTONIC, &from);
    int count = epoll_wait(ep, &event, 1, 50);
    SAY("wait %d, %s", count, elapsed(&from) >= 49 ? "in time" : "too early");
    clock_gettime(CLOCK_MONOTONIC, &from);
    count = epoll_wait(ep, &event, 1, 0);
    SAY("wait %d, %s", count, elapsed(&from) < 500 ? "at once" : "late");
    clock_gettime(CLOCK_MONOTONIC, &from);
    count = epoll_pwait2(ep, &event, 1, &(struct timespec){0, 50000000}, 0);
    SAY("wait %d, %s", count, elapsed(&from) >= 49 ? "in time" : "too early");
}

static void idle_uses_no_cpu(void) {
    struct timespec before, after;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    wait_and_say("none", 200);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    long used = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    SAY("%s", used < 50 ? "idle" : "busy");
}

// Descriptors of other kinds beside

static void others(void) {
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

static void other_edge(void) {
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

static void listener(void) {
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

static void connecting(void) {
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

static void many(void) {
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

static void stalled_reader_is_bounded(void) {
    // Without a read, no more than the kernel's buffers and a bound can be taken.
    char bytes[65536] = "";
    size_t total = 0;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    fcntl(b, F_SETFL, O_NONBLOCK);
    for (int idle = 0; idle < 10;) {
        ssize_t got = send(b, bytes, sizeof bytes, MSG_NOSIGNAL);
        if (got > 0) total += (size_t)got;
        else idle++;
        struct epoll_event event;
        epoll_wait(ep, &event, 1, got > 0 ? 0 : 10);
    }
    SAY("%s", total < 64 << 20 ? "bounded" : "unbounded");
    size_t all = 0;
    for (int idle = 0; all < total && idle < 100;) {
        ssize_t got = read(a, bytes, sizeof bytes);
        if (got > 0) all += (size_t)got;
        else idle++, epoll_wait(ep, &(struct epoll_event){0}, 1, 20);
    }
    SAY("%s", all == total ? "all came" : "some are missing");
}

static void reused_numbers(void) {
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

static void not_sockets(void) {
    char byte;
    struct iovec place = {&byte, 1};
    int file = open("/dev/null", O_RDWR);
    SAY("readv %zd", readv(file, &place, 1));
    SAY("writev %zd", writev(file, &place, 1));
    SAY("recv %zd %s", recv(file, &byte, 1, 0), strerror(errno));
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, file, EPOLLIN, 1)));
    SAY("wait %d %s", epoll_wait(file, &(struct epoll_event){0}, 1, 0), strerror(errno));
    SAY("close %d", close(file));
    SAY("read %zd %s", read(file, &byte, 1), strerror(errno));
    SAY("wait %d %s", epoll_wait(file, &(struct epoll_event){0}, 1, 0), strerror(errno));
}

static void errno_is_kept(void) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    errno = 77;
    wait_and_say("in", LONG);
    char bytes[10];
    ssize_t got = read(a, bytes, 10);
    got += write(a, bytes, (size_t)got);
    SAY("%zd %d", got, errno);
}

#define CASE(name) {#name, name}
static const struct { const char *name; void (*run)(void); } CASES[] = {
    CASE(level), CASE(edge), CASE(edge_both), CASE(one_shot), CASE(one_shot_hup), CASE(bytes_before_add),
    CASE(bytes_before_add_edge), CASE(read_without_wait), CASE(read_before_wait), CASE(out_only), CASE(no_interest),
    CASE(mod_rearms_edge), CASE(data_word), CASE(ctl_errors), CASE(ctl_after_wait), CASE(del_with_bytes),
    CASE(closed_member), CASE(max_events), CASE(peer_shuts), CASE(peer_shuts_out_only), CASE(peer_shuts_edge),
    CASE(both_shut), CASE(shut_read), CASE(peer_resets), CASE(peer_resets_error), CASE(reset_with_bytes),
    CASE(write_after_reset), CASE(close_with_bytes_resets), CASE(close_without_bytes_ends), CASE(reads), CASE(pieces),
    CASE(much_level), CASE(much_level_large), CASE(much_edge), CASE(much_odd), CASE(out_level), CASE(out_edge),
    CASE(queued_then_wait), CASE(queued_then_close), CASE(queued_then_shutdown), CASE(queued_then_sendfile),
    CASE(queued_then_fork), CASE(queued_then_dup), CASE(queued_then_exit), CASE(queued_then_exec), CASE(vfork_closes), CASE(duplicated), CASE(replaced), CASE(made_blocking),
    CASE(made_blocking_by_ioctl), CASE(polled), CASE(polled_with_bytes), CASE(selected), CASE(streamed), CASE(urgent),
    CASE(two_sets), CASE(nested), CASE(nested_before), CASE(polled_set), CASE(duplicated_set), CASE(closed_set),
    CASE(second_thread), CASE(reader_in_another_thread), CASE(waiter_in_another_thread), CASE(added_during_wait),
    CASE(sets_made_at_once), CASE(thread_ends), CASE(forked), CASE(forked_without_memory), CASE(forked_waits), CASE(forked_closes), CASE(forked_executes), CASE(interrupted),
    CASE(interrupted_restart), CASE(masked), CASE(timeouts), CASE(idle_uses_no_cpu), CASE(others), CASE(other_edge),
    CASE(listener), CASE(connecting), CASE(many), CASE(stalled_reader_is_bounded), CASE(reused_numbers),
    CASE(not_sockets), CASE(errno_is_kept), CASE(spliced), CASE(spliced_to_closed_pipe), CASE(spliced_to_full_pipe),
    CASE(spliced_waits_for_room), CASE(spliced_to_what_is_no_pipe),
};

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, 0, _IOLBF, 0);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        if (argc > 1 && strcmp(argv[1], CASES[i].name)) continue;
        name_of_case = CASES[i].name;
        alarm(20);
        begin();
        CASES[i].run();
        end();
        alarm(0);
    }
    return 0;
}
