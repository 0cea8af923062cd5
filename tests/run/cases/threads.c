#include "common.h"

// Threads

static void *wait_there(void *arg) {
    struct epoll_event event;
    *(int *)arg = epoll_wait(ep, &event, 1, LONG);
    return 0;
}

CASE(second_thread) {
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

CASE(reader_in_another_thread) {
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

CASE(waiter_in_another_thread) {
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

CASE(added_during_wait) {
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

CASE(added_during_a_wait_for_nothing) {
    // The set has nothing in it when the wait begins.
    pthread_t thread;
    pthread_create(&thread, 0, add_there, 0);
    wait_and_say("in", LONG);
    pthread_join(thread, 0);
    say_read("read", a, 10);
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
}

CASE(added_during_a_wait_for_others) {
    pthread_t thread;
    int e = eventfd(0, EFD_NONBLOCK);
    ctl(EPOLL_CTL_ADD, e, EPOLLIN, 2);
    wait_and_say("none", 0);
    pthread_create(&thread, 0, add_there, 0);
    wait_and_say("in", LONG);
    pthread_join(thread, 0);
    say_read("read", a, 10);
    eventfd_write(e, 1);
    wait_and_say("other", LONG);
    close(e);
}

static int first_set;

static void *move_there(void *arg) {
    // The bytes have come, and the set's thread waits already.
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 1};
    (void)arg;
    usleep(20000);
    CHECK(!epoll_ctl(first_set, EPOLL_CTL_ADD, a, &event));
    put(b, "abc");
    CHECK(epoll_wait(first_set, &event, 1, LONG) == 1);
    CHECK(!epoll_ctl(first_set, EPOLL_CTL_DEL, a, 0));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 3);
    return 0;
}

static void move(int with_others) {
    pthread_t thread;
    int e = eventfd(0, EFD_NONBLOCK);
    first_set = epoll_create1(0);
    if (with_others) ctl(EPOLL_CTL_ADD, e, EPOLLIN, 2);
    pthread_create(&thread, 0, move_there, 0);
    wait_and_say("in", LONG);
    pthread_join(thread, 0);
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    close(first_set);
    close(e);
}

CASE(moved_to_another_threads_set) { move(0); }
CASE(moved_to_another_threads_set_with_others) { move(1); }

CASE(moved_to_another_threads_ring) {
    // The set has a socket on its ring.
    int c, d;
    pair_of(&c, &d);
    ctl(EPOLL_CTL_ADD, c, EPOLLIN, 4);
    wait_and_say("none", 0);
    move(0);
    put(d, "x");
    wait_and_say("in", LONG);
    close(c), close(d);
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

CASE(sets_made_at_once) {
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

CASE(thread_ends) {
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
