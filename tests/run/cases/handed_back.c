#include "common.h"

// What is handed back

static void *put_later(void *arg) {
    (void)arg;
    usleep(30000);
    put(b, "later");
    return 0;
}

CASE(duplicated) {
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

CASE(duplicated_many) {
    // Each takes received bytes along, more than all buffers together hold.
    static char bytes[60000];
    int wrong = 0;
    for (int i = 0; i < 150; i++) {
        int one, other, size = 2 * sizeof bytes;
        struct epoll_event event = {.events = EPOLLIN};
        pair_of(&one, &other);
        CHECK(!setsockopt(other, SOL_SOCKET, SO_SNDBUF, &size, sizeof size));
        CHECK(!epoll_ctl(ep, EPOLL_CTL_ADD, one, &event));
        CHECK(send(other, bytes, sizeof bytes, 0) == sizeof bytes);
        for (int rounds = 0; rounds < 5; rounds++) wrong += epoll_wait(ep, &event, 1, LONG) != 1;
        int copy = dup(one);
        size_t left = sizeof bytes;
        for (ssize_t count; left > 0 && (count = read(one, bytes, sizeof bytes)) != 0;)
            if (count > 0) left -= (size_t)count;
            else wrong += epoll_wait(ep, &event, 1, LONG) != 1;
        wrong += left > 0;
        close(one), close(copy), close(other);
    }
    SAY("%d wrong", wrong);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "served");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
}

CASE(replaced) {
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

CASE(blocking_from_the_start) {
    pthread_t thread;
    fcntl(a, F_SETFL, fcntl(a, F_GETFL) & ~O_NONBLOCK);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    pthread_create(&thread, 0, put_later, 0);
    say_read("waits", a, 10);
    pthread_join(thread, 0);
}

CASE(made_blocking) {
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

CASE(made_blocking_by_ioctl) {
    int off = 0;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("ioctl %d", ioctl(a, FIONBIO, &off));
    say_read("memory first", a, 10);
    put(b, "def");
    say_read("then the kernel", a, 10);
}

CASE(polled) {
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

CASE(polled_one_shot) {
    // One that was told does not come again before it is armed anew.
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    SAY("poll %d", poll(&(struct pollfd){.fd = a, .events = POLLIN}, 1, 0));
    put(b, "def");
    wait_and_say("none", SHORT);
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT, 2));
    wait_and_say("in", LONG);
    say_read("read", a, 10);
}

CASE(polled_edge) {
    // What comes later is a new edge, though there are bytes from before.
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("poll %d", poll(&(struct pollfd){.fd = a, .events = POLLIN}, 1, LONG));
    // What is there may be told once more.
    epoll_wait(ep, &(struct epoll_event){0}, 1, SHORT);
    wait_and_say("none", SHORT);
    put(b, "def");
    wait_and_say("in", LONG);
    wait_and_say("none", SHORT);
    say_read("read", a, 10);
    put(b, "ghi");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
}

CASE(polled_with_bytes) {
    struct pollfd entry = {.fd = a, .events = POLLIN | POLLOUT};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("poll %d %x", poll(&entry, 1, LONG), entry.revents);
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    SAY("poll %d %x", poll(&entry, 1, LONG), entry.revents);
}

CASE(selected) {
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

CASE(streamed) {
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

CASE(urgent) {
    char byte = 0;
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLPRI, 1));
    CHECK(send(b, "!", 1, MSG_OOB) == 1);
    wait_and_say("pri", LONG);
    SAY("recv %zd %c", recv(a, &byte, 1, MSG_OOB), byte);
}

CASE(two_sets) {
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

CASE(nested) {
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

CASE(nested_edge) {
    int outer = epoll_create1(0), low = 10;
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 8};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLET, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, ep, &event));
    // What is there may be told once more.
    epoll_wait(ep, &(struct epoll_event){0}, 1, SHORT);
    wait_and_say("none", SHORT);
    // Mostly while it sleeps. A wait that ends with its time would look again.
    pthread_t thread;
    pthread_create(&thread, 0, put_later, 0);
    wait_and_say("in", -1);
    pthread_join(thread, 0);
    CHECK(!setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low));
    epoll_wait(ep, &(struct epoll_event){0}, 1, SHORT);
    put(b, "gh");
    wait_and_say("enough", LONG);
    say_read("read", a, 10);
    close(outer);
}

// Something happens to a socket of which bytes are left here, mostly while a wait without an end sleeps.
static void asleep(int nested, unsigned events, const char *bytes, void *(*happens)(void *)) {
    int outer = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 8};
    pthread_t thread;
    ctl(EPOLL_CTL_ADD, a, events, 1);
    put(b, bytes);
    epoll_wait(ep, &(struct epoll_event){0}, 1, SHORT);
    if (nested) SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, ep, &event));
    else SAY("poll %d", poll(&(struct pollfd){.fd = a, .events = POLLOUT}, 1, 0));
    // What is there may be told once more.
    epoll_wait(ep, &(struct epoll_event){0}, 1, SHORT);
    wait_and_say("none", SHORT);
    pthread_create(&thread, 0, happens, 0);
    wait_and_say("news", -1);
    pthread_join(thread, 0);
    say_read("read", a, 10);
    close(outer);
}

static void *end_later(void *arg) {
    usleep(30000);
    shutdown(b, SHUT_WR);
    return arg;
}

static void *reset_later(void *arg) {
    usleep(30000);
    reset(b);
    b = -1;
    return arg;
}

static void low_water_asleep(int nested) {
    int low = 5;
    CHECK(!setsockopt(a, SOL_SOCKET, SO_RCVLOWAT, &low, sizeof low));
    asleep(nested, EPOLLIN, "abc", put_later);
}

CASE(nested_low_water) { low_water_asleep(1); }
CASE(polled_low_water) { low_water_asleep(0); }
CASE(nested_end) { asleep(1, EPOLLIN | EPOLLRDHUP | EPOLLET, "abc", end_later); }
CASE(polled_end) { asleep(0, EPOLLIN | EPOLLRDHUP | EPOLLET, "abc", end_later); }
CASE(nested_reset) { asleep(1, EPOLLIN | EPOLLET, "abc", reset_later); }
CASE(polled_reset) { asleep(0, EPOLLIN | EPOLLET, "abc", reset_later); }

CASE(nested_before) {
    int outer = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 8};
    SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, ep, &event));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    SAY("outer %d", epoll_wait(outer, &event, 1, LONG));
    wait_and_say("inner", LONG);
    close(outer);
}

CASE(polled_set) {
    struct pollfd entry = {.fd = ep, .events = POLLIN};
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    SAY("poll %d", poll(&entry, 1, SHORT));
    put(b, "x");
    SAY("poll %d", poll(&entry, 1, LONG));
    wait_and_say("in", LONG);
}

CASE(duplicated_set) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    int copy = dup(ep);
    struct epoll_event event;
    put(b, "x");
    SAY("copy %d", epoll_wait(copy, &event, 1, LONG));
    wait_and_say("in", LONG);
    close(copy);
}

CASE(closed_set) {
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
