#include "common.h"

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

CASE(out_level) { pour_out(0, 4096); }
CASE(out_edge) { pour_out(EPOLLET, 100000); }

CASE(queued_then_wait) {
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

// So much waits to be sent that the socket is not writable, until it is sent.
static void queued_then_room(unsigned flags) {
    static char bytes[15000];
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    say_read("read", a, 10);
    for (int i = 0; i < 3; i++) SAY("write %zd", write(a, bytes, sizeof bytes));
    end_batch();
    ctl(EPOLL_CTL_MOD, a, EPOLLOUT | flags, 2);
    wait_and_say("room", -1);
    if (flags) wait_and_say("none", SHORT);
}

CASE(queued_then_room_level) { queued_then_room(0); }
CASE(queued_then_room_edge) { queued_then_room(EPOLLET); }

static int next_number(void) {
    int fd = open("/dev/null", O_RDONLY);
    close(fd);
    return fd;
}

// What cannot be sent any more is thrown away, and takes no descriptor and no time.
CASE(queued_then_reset) {
    struct timespec from, to;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    int before = next_number();
    put(b, "x");
    make_batch();
    say_read("read", a, 10);
    SAY_CALL("send", send(a, "never sent", 10, MSG_NOSIGNAL));
    reset(b);
    b = -1;
    char byte;
    epoll_wait(ep, &(struct epoll_event){0}, 1, LONG);
    while (recv(a, &byte, 1, 0) < 0 && errno != ECONNRESET && errno != EPIPE) {}
    // Its bytes would end each wait.
    end_batch();
    ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLET, 1);
    wait_and_say("edge", LONG);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    wait_and_say("none", 10 * SHORT);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    SAY("%s", (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000 < 5 * SHORT ? "sleeps" : "busy");
    close(a);
    a = -1;
    epoll_wait(ep, &(struct epoll_event){0}, 1, SHORT);
    SAY("%s", next_number() <= before ? "closed" : "left open");
}

// So is what the kernel did not take: there is room again, and an error is told.
static void full_then_reset(unsigned flags) {
    static char bytes[10000];
    ssize_t got, total = 0;
    int size = 4096;
    setsockopt(a, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(b, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLOUT | flags, 1);
    wait_and_say("room", LONG);
    put(b, "x");
    make_batch();
    say_read("read", a, 1);
    while (total < 60000 && (got = send(a, bytes, sizeof bytes, MSG_NOSIGNAL)) > 0) total += got;
    end_batch();
    // The sends of the batch are handed over.
    epoll_wait(ep, &(struct epoll_event){0}, 1, 0);
    reset(b);
    b = -1;
    for (int i = 0; i < 2; i++) wait_and_say("reset", flags ? SHORT : LONG);
    say_read("error", a, 1);
    SAY_CALL("send", send(a, bytes, 1, MSG_NOSIGNAL));
    wait_and_say("then", SHORT);
}

CASE(full_then_reset_level) { full_then_reset(0); }
CASE(full_then_reset_edge) { full_then_reset(EPOLLET); }

CASE(queued_then_close) {
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

CASE(queued_then_shutdown) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY("write %zd", write(a, "bye", 3));
    SAY("shutdown %d", shutdown(a, SHUT_WR));
    say_peer("peer");
    say_peer("peer");
    end_batch();
}

CASE(queued_then_sendfile) {
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
    say_rest_of_peer("peer");
    fclose(file);
    end_batch();
}

CASE(queued_then_fork) {
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

CASE(queued_then_exit) { queued_then_end(0); }
CASE(queued_then_exec) { queued_then_end(1); }

CASE(queued_then_dup) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    SAY("write %zd", write(a, "first ", 6));
    int copy = dup(a);
    SAY("write %zd", write(copy, "second ", 7));
    SAY("write %zd", write(a, "third", 5));
    shutdown(a, SHUT_WR);
    say_rest_of_peer("peer");
    close(copy);
    end_batch();
}

static void *take_to_the_end(void *arg) {
    char bytes[4096];
    ssize_t got, *left = arg;
    while ((got = recv(b, bytes, sizeof bytes, 0)) > 0) __atomic_sub_fetch(left, got, __ATOMIC_RELAXED);
    return 0;
}

// Reads what was queued, then answers.
static void *take_all(void *arg) {
    char bytes[4096];
    ssize_t got, *left = arg;
    usleep(50000);
    while (*left > 0 && (got = recv(b, bytes, sizeof bytes, 0)) > 0) *left -= got;
    put(b, "done");
    return 0;
}

CASE(queued_then_close_to_a_slow_peer) {
    static char bytes[10000];
    int size = 4096;
    ssize_t left = 0;
    pthread_t thread;
    setsockopt(a, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(b, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    say_read("read", a, 1);
    for (ssize_t got; left < 60000 && (got = send(a, bytes, sizeof bytes, MSG_NOSIGNAL)) > 0;) left += got;
    close(a);
    a = -1;
    end_batch();
    pthread_create(&thread, 0, take_to_the_end, &left);
    // What is left is sent by the next waits.
    for (int i = 0; i < 2000 && __atomic_load_n(&left, __ATOMIC_RELAXED) > 0; i++)
        epoll_wait(ep, &(struct epoll_event){0}, 1, 1);
    pthread_join(thread, 0);
    SAY("%zd left", left);
}

static void fill_and_wait(int nests) {
    static char bytes[10000];
    int size = 4096;
    ssize_t left = 0;
    pthread_t thread;
    setsockopt(a, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    setsockopt(b, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    say_read("read", a, 1);
    for (ssize_t got; left < 60000 && (got = send(a, bytes, sizeof bytes, MSG_NOSIGNAL)) > 0;) left += got;
    // Nothing else happens, so it is the wait that has to send the rest.
    end_batch();
    int outer = epoll_create1(0);
    if (nests) SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, ep, &(struct epoll_event){.events = EPOLLIN}));
    pthread_create(&thread, 0, take_all, &left);
    wait_and_say("answer", LONG);
    shutdown(b, SHUT_RDWR);
    pthread_join(thread, 0);
    SAY("%zd left", left);
    close(outer);
}

// Nothing more fits into the kernel's buffers when the set is handed back.
CASE(full_in_a_nested_set) {
    static char bytes[10000];
    ssize_t got, left = 0;
    pthread_t thread;
    make_narrow();
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    for (int tries = 0; tries < 20; tries++) {
        while (left < 8 << 20 && (got = send(a, bytes, sizeof bytes, MSG_NOSIGNAL)) > 0) left += got, tries = 0;
        usleep(500);
    }
    // The peer reads until there is room for some of what is queued then.
    ctl(EPOLL_CTL_MOD, a, EPOLLOUT, 1);
    while (epoll_wait(ep, &(struct epoll_event){0}, 1, 1) == 0)
        if ((got = recv(b, bytes, 4096, MSG_DONTWAIT)) > 0) left -= got;
    ctl(EPOLL_CTL_MOD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    say_read("read", a, 1);
    while (left < 8 << 20 && (got = send(a, bytes, sizeof bytes, MSG_NOSIGNAL)) > 0) left += got;
    end_batch();
    int outer = epoll_create1(0);
    SAY("add %d", epoll_ctl(outer, EPOLL_CTL_ADD, ep, &(struct epoll_event){.events = EPOLLIN}));
    pthread_create(&thread, 0, take_all, &left);
    wait_and_say("answer", LONG);
    shutdown(b, SHUT_RDWR);
    pthread_join(thread, 0);
    SAY("%zd left", left);
    close(outer);
}

CASE(queued_more_than_the_kernel_takes) { fill_and_wait(0); }
CASE(queued_in_a_nested_set) { fill_and_wait(1); }
