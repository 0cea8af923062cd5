#include "common.h"

// Signals, time

static volatile sig_atomic_t signalled;
static void handler(int number) { (void)number; signalled++; }

// Sends SIGALRM every so many milliseconds, for the first may come before the wait has begun. 0 ends it.
static void timer(int milliseconds) {
    struct timeval each = {milliseconds / 1000, milliseconds % 1000 * 1000};
    setitimer(ITIMER_REAL, &(struct itimerval){each, each}, 0);
}

// Waits until a signal comes, and says so.
static void wait_for_signal(void) {
    struct epoll_event event;
    signalled = 0;
    timer(20);
    int count = epoll_wait(ep, &event, 1, LONG), failed = errno;
    timer(0);
    SAY("wait %d %s, signals: %d", count, strerror(failed), signalled > 0);
}

CASE(interrupted) {
    struct sigaction action = {.sa_handler = handler}, before;
    sigaction(SIGALRM, &action, &before);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_for_signal();
    wait_for_signal();
    put(b, "x");
    wait_and_say("in", LONG);
    sigaction(SIGALRM, &before, 0);
}

CASE(interrupted_restart) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, before;
    sigaction(SIGALRM, &action, &before);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_for_signal();
    sigaction(SIGALRM, &before, 0);
}

CASE(masked) {
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

CASE(timeouts) {
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

CASE(idle_uses_no_cpu) {
    struct timespec before, after;
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    wait_and_say("none", 200);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    long used = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    SAY("%s", used < 50 ? "idle" : "busy");
}
