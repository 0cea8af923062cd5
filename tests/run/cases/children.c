#include "common.h"

// A forked process has the sockets, too; then it ends, and the parent goes on.

static int gate[2];  // a child waits until the parent writes a byte

static void wait_at_gate(void) {
    char byte;
    CHECK(read(gate[0], &byte, 1) == 1);
}

static void open_gate(void) { CHECK(write(gate[1], "x", 1) == 1); }

static void end_child(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    SAY("status %d", WEXITSTATUS(status));
}

// Long enough that sockets which no child has any more can return to where they were.
static void serve(int rounds) {
    int wrong = 0;
    for (int i = 0; i < rounds; i++) {
        char text[20], got[20];
        sprintf(text, "round %d", i);
        put(b, text);
        struct epoll_event event;
        wrong += epoll_wait(ep, &event, 1, LONG) != 1 || event.data.u64 != 1;
        ssize_t count = read(a, got, sizeof got);
        wrong += count != (ssize_t)strlen(text) || memcmp(got, text, (size_t)count);
        wrong += write(a, text, strlen(text)) != (ssize_t)strlen(text);
        epoll_wait(ep, &event, 1, 0);
        count = recv(b, got, sizeof got, 0);
        wrong += count != (ssize_t)strlen(text) || memcmp(got, text, (size_t)count);
        usleep(1000);
    }
    SAY("%d wrong", wrong);
}

CASE(child_ends_at_once) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    pid_t child = fork();
    if (!child) _exit(7);
    end_child(child);
    serve(50);
    child = fork();
    if (!child) _exit(8);
    serve(20);
    end_child(child);
    serve(50);
}

CASE(child_ends_later) {
    CHECK(!pipe(gate));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "before");
    wait_and_say("in", LONG);
    say_read("part", a, 3);
    pid_t child = fork();
    if (!child) {
        wait_at_gate();
        _exit(0);
    }
    wait_and_say("in", LONG);
    say_read("rest", a, 10);
    serve(20);
    open_gate();
    end_child(child);
    serve(50);
    close(gate[0]), close(gate[1]);
}

CASE(child_reads_later) {
    // While the child may read, the parent's wait takes nothing.
    CHECK(!pipe(gate));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    pid_t child = fork();
    if (!child) {
        wait_at_gate();
        say_read("child", a, 3);
        fflush(stdout);
        _exit(0);
    }
    for (int i = 0; i < 20; i++) epoll_wait(ep, &(struct epoll_event){0}, 1, 2);
    put(b, "abcdef");
    wait_and_say("in", LONG);
    wait_and_say("in", LONG);
    open_gate();
    end_child(child);
    for (int i = 0; i < 20; i++) epoll_wait(ep, &(struct epoll_event){0}, 1, 2);
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
    serve(20);
    close(gate[0]), close(gate[1]);
}

CASE(child_reads_all) {
    // What a child has taken is not told of any more.
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "before");
    wait_and_say("in", LONG);
    say_read("part", a, 2);
    pid_t child = fork();
    if (!child) {
        say_read("child", a, 10);
        fflush(stdout);
        _exit(0);
    }
    end_child(child);
    wait_and_say("none", SHORT);
    say_read("nothing", a, 10);
    serve(20);
}

CASE(grandchild_reads_later) {
    CHECK(!pipe(gate));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    int done[2];
    char byte;
    CHECK(!pipe(done));
    pid_t child = fork();
    if (!child) {
        if (!fork()) {
            wait_at_gate();
            say_read("grandchild", a, 3);
            fflush(stdout);
            CHECK(write(done[1], "x", 1) == 1);
        }
        _exit(0);
    }
    end_child(child);
    for (int i = 0; i < 30; i++) epoll_wait(ep, &(struct epoll_event){0}, 1, 2);
    put(b, "abcdef");
    wait_and_say("in", LONG);
    open_gate();
    CHECK(read(done[0], &byte, 1) == 1);
    wait_and_say("in", LONG);
    say_read("parent", a, 10);
    serve(20);
    close(gate[0]), close(gate[1]);
    close(done[0]), close(done[1]);
}

CASE(child_becomes_a_program) {
    // A program that the child executes has the connection for its input.
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    fcntl(a, F_SETFD, FD_CLOEXEC);
    CHECK(!pipe(gate));
    pid_t child = fork();
    if (!child) {
        dup2(a, 0);
        dup2(gate[0], 3);
        execlp("sh", "sh", "-c", "head -c 1 <&3 >/dev/null; head -c 3; echo", (char *)0);
        _exit(1);
    }
    for (int i = 0; i < 40; i++) epoll_wait(ep, &(struct epoll_event){0}, 1, 2);
    put(b, "abcdef");
    wait_and_say("in", LONG);
    wait_and_say("in", LONG);
    open_gate();
    end_child(child);
    say_read("parent", a, 10);
    serve(20);
    close(gate[0]), close(gate[1]);
}

CASE(child_becomes_another_program) {
    // The connection is closed on exec, so the parent alone has it.
    fcntl(a, F_SETFD, FD_CLOEXEC);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    CHECK(!pipe(gate));
    pid_t child = fork();
    if (!child) {
        execlp("sh", "sh", "-c", "read line", (char *)0);
        _exit(1);
    }
    serve(50);
    close(gate[0]), close(gate[1]);
    kill(child, SIGKILL);
    CHECK(waitpid(child, 0, 0) == child);
    serve(5);
}

// Both processes read what a third one pours in: each byte comes once.

#define POURED (1 << 20)

static unsigned long read_all(int until_end, unsigned long *total) {
    unsigned long all = 0;
    for (;;) {
        unsigned char bytes[3000];
        struct pollfd entry = {.fd = a, .events = POLLIN};
        if (until_end) epoll_wait(ep, &(struct epoll_event){0}, 1, 20);
        else poll(&entry, 1, 20);
        ssize_t got = read(a, bytes, sizeof bytes);
        if (got == 0) return all;
        for (ssize_t i = 0; i < got; i++) all += bytes[i];
        if (got > 0) *total += (unsigned long)got;
        // The child leaves in the middle of it.
        if (!until_end && *total > POURED / 8) return all;
    }
}

static void *pour_in(void *unused) {
    unsigned char *bytes = malloc(POURED);
    for (size_t i = 0; i < POURED; i++) bytes[i] = (unsigned char)(i * 7 + i / 251);
    for (size_t done = 0; done < POURED;) done += (size_t)send(b, bytes + done, POURED - done, 0);
    shutdown(b, SHUT_WR);
    free(bytes);
    return unused;
}

CASE(both_read) {
    pthread_t thread;
    unsigned long *shared = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), expected = 0, total = 0;
    for (size_t i = 0; i < POURED; i++) expected += (unsigned char)(i * 7 + i / 251);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "");
    wait_and_say("none", 0);
    pid_t children[3];
    pthread_create(&thread, 0, pour_in, 0);
    for (int i = 0; i < 3; i++) {
        epoll_wait(ep, &(struct epoll_event){0}, 1, LONG);
        if (!(children[i] = fork())) {
            shared[2 * i] = read_all(0, &shared[2 * i + 1]);
            _exit(0);
        }
        unsigned char bytes[100];
        ssize_t got = read(a, bytes, sizeof bytes);
        for (ssize_t k = 0; k < got; k++) shared[10] += bytes[k];
        if (got > 0) total += (unsigned long)got;
    }
    shared[10] += read_all(1, &total);
    pthread_join(thread, 0);
    for (int i = 0; i < 3; i++) CHECK(waitpid(children[i], 0, 0) == children[i]);
    for (int i = 0; i < 3; i++) shared[10] += shared[2 * i], total += shared[2 * i + 1];
    SAY("%lu bytes, %s", total, total == POURED && shared[10] == expected ? "each once" : "wrong");
    munmap(shared, 4096);
}

// Interests that change while the child lives

static void with_child(void (*run)(void)) {
    CHECK(!pipe(gate));
    wait_and_say("none", 0);
    pid_t child = fork();
    if (!child) {
        wait_at_gate();
        _exit(0);
    }
    run();
    open_gate();
    end_child(child);
    for (int i = 0; i < 50; i++) epoll_wait(ep, &(struct epoll_event){0}, 1, 0), usleep(1000);
    run();
    close(gate[0]), close(gate[1]);
}

static void change(void) {
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLOUT, 2)));
    wait_and_say("out", LONG);
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1)));
    SAY("del %s", strerror(ctl(EPOLL_CTL_DEL, a, 0, 0)));
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN, 1)));
    put(b, "abc");
    wait_and_say("none", SHORT);
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 3)));
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    SAY("no event %s", strerror(epoll_ctl(ep, EPOLL_CTL_MOD, a, 0) ? errno : 0));
    SAY("bad op %s", strerror(ctl(77, a, EPOLLIN, 1)));
    wait_and_say("none", SHORT);
}

CASE(interest_changes_beside_a_child) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    with_child(change);
    serve(0);
}

static void shoot(void) {
    put(b, "abc");
    SAY("mod %s", strerror(ctl(EPOLL_CTL_MOD, a, EPOLLIN | EPOLLONESHOT, 2)));
    wait_and_say("shot", LONG);
    wait_and_say("fired", SHORT);
    say_read("read", a, 10);
}

CASE(one_shot_beside_a_child) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLONESHOT, 1);
    with_child(shoot);
    put(b, "def");
    wait_and_say("fired still", SHORT);
    shoot();
}

static void connect_anew(void) {
    int c, d;
    pair_of(&c, &d);
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, c, EPOLLIN | EPOLLRDHUP, 5)));
    put(d, "new");
    wait_and_say("in", LONG);
    say_read("read", c, 10);
    put(b, "old");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    put(c, "reply");
    char bytes[10];
    epoll_wait(ep, &(struct epoll_event){0}, 1, 0);
    say_bytes("peer", recv(d, bytes, 10, 0), bytes);
    close(d);
    wait_and_say("end", LONG);
    close(c);
    wait_and_say("none", SHORT);
}

CASE(connections_beside_a_child) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    with_child(connect_anew);
}

static void end_connection(void) {
    int c, d;
    pair_of(&c, &d);
    ctl(EPOLL_CTL_ADD, c, EPOLLIN | EPOLLRDHUP, 5);
    wait_and_say("none", 0);
    pid_t child = fork();
    if (!child) {
        close(c), close(d);
        _exit(0);
    }
    end_child(child);
    shutdown(d, SHUT_WR);
    wait_and_say("end", LONG);
    say_read("end", c, 10);
    put(c, "reply");
    char bytes[10];
    say_bytes("peer", recv(d, bytes, 10, 0), bytes);
    close(c);
    say_bytes("peer", recv(d, bytes, 10, 0), bytes);
    close(d);
    wait_and_say("none", SHORT);
}

CASE(connection_ends_beside_a_child) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    with_child(end_connection);
}

static void use_otherwise(void) {
    struct pollfd entry = {.fd = a, .events = POLLIN | POLLOUT};
    int count = -1;
    put(b, "abcdef");
    SAY("poll %d %x", poll(&entry, 1, LONG), entry.revents);
    ioctl(a, FIONREAD, &count);
    SAY("FIONREAD %d", count);
    char bytes[10];
    say_bytes("peek", recv(a, bytes, 2, MSG_PEEK), bytes);
    int copy = dup(a);
    say_read("copy", copy, 3);
    close(copy);
    wait_and_say("in", LONG);
    say_read("rest", a, 10);
}

CASE(other_uses_beside_a_child) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    with_child(use_otherwise);
}

CASE(child_waits_on_a_set_of_its_own) {
    // As a server that forks for a connection.
    CHECK(!pipe(gate));
    pid_t child = fork();
    if (!child) {
        CHECK((ep = epoll_create1(0)) >= 0);
        ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
        open_gate();
        wait_and_say("child", LONG);
        say_read("child", a, 10);
        CHECK(write(a, "reply", 5) == 5);
        fflush(stdout);
        _exit(0);
    }
    close(a);
    a = -1;
    wait_at_gate();
    put(b, "abc");
    end_child(child);
    say_peer("peer");
    say_peer("end");
    close(gate[0]), close(gate[1]);
}

CASE(piped_children) {
    // popen and system run programs beside the connection.
    char line[20] = "";
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    FILE *file = popen("echo from a child", "r");
    SAY("%s", fgets(line, 20, file) ? strtok(line, "\n") : "nothing");
    SAY("%d", pclose(file));
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    serve(10);
}

CASE(child_writes_after_what_is_queued) {
    // A program that is started beside the server writes to its connection.
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    char command[60];
    CHECK(a < 10);  // a shell's numbers have one digit
    sprintf(command, "printf 'program ' >&%d", a);
    SAY_CALL("write", write(a, "server ", 7));
    SAY("system %d", system(command));
    SAY_CALL("write", write(a, "server ", 7));
    sprintf(command, "printf 'stream ' >&%d", a);
    SAY("closed %d", pclose(popen(command, "w")));
    SAY_CALL("write", write(a, "server", 6));
    wait_and_say("wait", 0);
    shutdown(a, SHUT_WR);
    say_rest_of_peer("peer");
    end_batch();
}

pid_t _Fork(void);

CASE(forked_without_handlers) {
    CHECK(!pipe(gate));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    pid_t child = _Fork();
    if (!child) {
        wait_at_gate();
        say_read("child", a, 2);
        fflush(stdout);
        _exit(0);
    }
    wait_and_say("in", LONG);
    open_gate();
    end_child(child);
    say_read("parent", a, 10);
    serve(30);
    close(gate[0]), close(gate[1]);
}

CASE(child_without_a_pipe) {
    // No descriptor is left at the fork.
    struct rlimit before, none;
    CHECK(!pipe(gate) && !getrlimit(RLIMIT_NOFILE, &before));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    none = (struct rlimit){3, before.rlim_max};
    CHECK(!setrlimit(RLIMIT_NOFILE, &none));
    pid_t child = fork();
    if (!child) {
        wait_at_gate();
        say_read("child", a, 2);
        fflush(stdout);
        _exit(0);
    }
    CHECK(!setrlimit(RLIMIT_NOFILE, &before));
    wait_and_say("in", LONG);
    open_gate();
    end_child(child);
    say_read("parent", a, 10);
    serve(30);
    close(gate[0]), close(gate[1]);
}

CASE(many_children) {
    CHECK(!pipe(gate));
    pid_t children[80];
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    for (int i = 0; i < 80; i++) {
        if (!(children[i] = fork())) {
            wait_at_gate();
            _exit(0);
        }
        if (i % 20 == 0) serve(2);
    }
    for (int i = 0; i < 80; i++) open_gate();
    for (int i = 0; i < 80; i++) CHECK(waitpid(children[i], 0, 0) == children[i]);
    serve(30);
    close(gate[0]), close(gate[1]);
}
