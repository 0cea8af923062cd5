#include "common.h"

// splice

static void say_splice(const char *what, int to, size_t len, unsigned flags) {
    ssize_t count = splice(a, 0, to, 0, len, flags);
    if (count >= 0) SAY("%s %zd", what, count);
    else SAY("%s %s", what, strerror(errno));
}

CASE(spliced) {
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

CASE(spliced_to_closed_pipe) {
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

CASE(spliced_to_full_pipe) {
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

CASE(spliced_waits_for_room) {
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

CASE(spliced_to_what_is_no_pipe) {
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
