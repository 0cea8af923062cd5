#include "common.h"

// Descriptors that get other names, in this process and in others.

static void send_descriptor(int through, int fd) {
    char control[CMSG_SPACE(sizeof fd)] = "";
    struct iovec piece = {"x", 1};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    *header = (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    CHECK(sendmsg(through, &message, 0) == 1);
}

static int receive_descriptor(int through) {
    char control[CMSG_SPACE(sizeof(int))], byte;
    struct iovec place = {&byte, 1};
    struct msghdr message = {.msg_iov = &place, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    int fd;
    CHECK(recvmsg(through, &message, 0) == 1);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

CASE(sent_to_itself) {
    int pair[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    send_descriptor(pair[0], a);
    int copy = receive_descriptor(pair[1]);
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("copy", copy, 10);
    wait_and_say("none", SHORT);
    put(copy, "reply");
    say_peer("peer");
    close(a);
    put(b, "def");
    wait_and_say("in still", LONG);
    say_read("copy", copy, 10);
    close(copy);
    a = -1;
    say_peer("end");
    close(pair[0]), close(pair[1]);
}

CASE(sent_to_another_process) {
    int pair[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    pid_t child = fork();
    if (!child) {
        close(a);
        int fd = receive_descriptor(pair[1]);
        while (send(fd, "child ", 6, MSG_NOSIGNAL) < 0) {}
        char bytes[20];
        struct pollfd entry = {.fd = fd, .events = POLLIN};
        poll(&entry, 1, LONG);
        say_bytes("child", read(fd, bytes, 20), bytes);
        fflush(stdout);
        _exit(0);
    }
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    say_read("read", a, 10);
    SAY_CALL("write", write(a, "parent ", 7));
    send_descriptor(pair[0], a);
    put(b, "for the child");
    waitpid(child, 0, 0);
    SAY_CALL("write", write(a, "parent", 6));
    shutdown(a, SHUT_WR);
    say_rest_of_peer("peer");
    close(pair[0]), close(pair[1]);
    end_batch();
}

CASE(set_sent_to_itself) {
    int pair[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    wait_and_say("none", 0);
    send_descriptor(pair[0], ep);
    int copy = receive_descriptor(pair[1]), first = ep;
    put(b, "abc");
    ep = copy;
    wait_and_say("in", LONG);
    ep = first;
    wait_and_say("in", LONG);
    close(copy);
    close(pair[0]), close(pair[1]);
}

CASE(set_by_two_names) {
    // Interests are given to one name of the set, and waits to the other.
    int first = ep, copy = fcntl(ep, F_DUPFD_CLOEXEC, 3);
    ep = copy;
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1));
    ep = first;
    put(b, "abc");
    wait_and_say("in", LONG);
    say_read("part", a, 1);
    ep = copy;
    wait_and_say("in", LONG);
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1)));
    SAY("mod %d", ctl(EPOLL_CTL_MOD, a, EPOLLIN, 2));
    close(first);
    wait_and_say("in", LONG);
    say_read("rest", a, 10);
    put(b, "def");
    wait_and_say("in", LONG);
    int last = dup(copy);
    SAY("dup2 %d", dup2(last, copy) == copy);
    wait_and_say("in", LONG);
    close(last);
    SAY("del %d", ctl(EPOLL_CTL_DEL, a, 0, 0));
    wait_and_say("none", SHORT);
    say_read("read", a, 10);
}

CASE(replaced_by_itself) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("dup2 %d", dup2(a, a) == a);
    SAY_CALL("dup3", dup3(a, a, 0));
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
}

CASE(replaced_by_nothing) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY_CALL("dup2", dup2(999, a));
    SAY_CALL("dup3", dup3(999, a, O_CLOEXEC));
    SAY_CALL("bad flags", dup3(b, a, 77));
    SAY_CALL("bad number", dup2(a, -1));
    SAY_CALL("dup", dup(999));
    wait_and_say("in", LONG);
    say_read("read", a, 10);
}

CASE(replaced_by_another) {
    // Each of two sockets of a set takes the other's place.
    int c, d;
    pair_of(&c, &d);
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    ctl(EPOLL_CTL_ADD, c, EPOLLIN, 2);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("dup2 %d", dup2(c, a) == a);
    say_peer("end");
    wait_and_say("none", SHORT);
    put(d, "def");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    wait_and_say("none", SHORT);
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, a, EPOLLIN, 3)));
    put(d, "ghi");
    wait_and_say("both", LONG);
    say_read("read", c, 10);
    close(c), close(d);
}

CASE(duplicated_by_number) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abcdef");
    wait_and_say("in", LONG);
    int copy = fcntl(a, F_DUPFD, 100), other = fcntl(a, F_DUPFD_CLOEXEC, 200);
    SAY("%d %d", copy >= 100, other >= 200);
    wait_and_say("in", LONG);
    say_read("original", a, 10);
    put(b, "ghi");
    wait_and_say("in", LONG);
    say_read("copy", copy, 1);
    say_read("other", other, 10);
    SAY("add %s", strerror(ctl(EPOLL_CTL_ADD, copy, EPOLLIN, 2)));
    put(b, "jkl");
    wait_and_say("both", LONG);
    SAY_CALL("bad", fcntl(a, F_DUPFD, -1));
    close(copy), close(other);
}

CASE(duplicated_at_the_end) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN | EPOLLRDHUP, 1);
    put(b, "abc");
    shutdown(b, SHUT_WR);
    usleep(20000);
    wait_and_say("in", LONG);
    int copy = dup(a);
    say_read("original", a, 10);
    wait_and_say("end", LONG);
    say_read("original", a, 10);
    say_read("copy", copy, 10);
    SAY_CALL("write", write(copy, "reply", 5));
    say_peer("peer");
    close(copy);
}

CASE(set_replaced) {
    int pipes[2];
    CHECK(!pipe(pipes));
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    SAY("dup2 %d", dup2(pipes[0], ep) == ep);
    SAY_CALL("wait", epoll_wait(ep, &(struct epoll_event){0}, 1, 0));
    say_read("read", a, 10);
    put(b, "def");
    usleep(1000);
    say_read("read", a, 10);
    close(pipes[0]), close(pipes[1]);
    close(ep);
    CHECK((ep = epoll_create1(0)) >= 0);
    SAY("add %d", ctl(EPOLL_CTL_ADD, a, EPOLLIN, 2));
    put(b, "ghi");
    wait_and_say("in", LONG);
}

CASE(flags_changed) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    int flags = fcntl(a, F_GETFL);
    SAY("non-blocking %d", !!(flags & O_NONBLOCK));
    SAY_CALL("set", fcntl(a, F_SETFL, flags | O_NONBLOCK));
    SAY_CALL("set", fcntl(a, F_SETFD, FD_CLOEXEC));
    SAY_CALL("get", fcntl(a, F_GETFD));
    wait_and_say("in", LONG);
    say_read("read", a, 10);
    SAY_CALL("bad", fcntl(a, 7777));
    put(b, "def");
    wait_and_say("in", LONG);
}

CASE(signals_input) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "abc");
    wait_and_say("in", LONG);
    signal(SIGIO, SIG_IGN);
    int on = 1;
    SAY_CALL("async", ioctl(a, FIOASYNC, &on));
    SAY("async %d", !!(fcntl(a, F_GETFL) & O_ASYNC));
    say_read("read", a, 10);
    put(b, "def");
    wait_and_say("in", LONG);
    say_read("read", a, 10);
}

CASE(stream_of_both) {
    char line[20] = "";
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "first\nsecond\n");
    wait_and_say("in", LONG);
    say_read("by hand", a, 6);
    FILE *file = fdopen(a, "r+");
    // What was received is read by hand; the stream begins after it.
    say_read("by hand", a, 7);
    put(b, "third\n");
    wait_and_say("in", LONG);
    SAY("fgets %s", fgets(line, 20, file) ? strtok(line, "\n") : "nothing");
    fseek(file, 0, SEEK_CUR);
    fprintf(file, "written\n");
    fflush(file);
    say_peer("peer");
    fclose(file);
    a = -1;
    say_peer("end");
}

CASE(stream_before) {
    char line[20] = "";
    FILE *file = fdopen(a, "r");
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "a line\n");
    wait_and_say("in", LONG);
    SAY("fgets %s", fgets(line, 20, file) ? strtok(line, "\n") : "nothing");
    wait_and_say("none", SHORT);
    fclose(file);
    a = -1;
    say_peer("end");
}

CASE(stream_after_a_batch) {
    ctl(EPOLL_CTL_ADD, a, EPOLLIN, 1);
    put(b, "x");
    make_batch();
    say_read("read", a, 10);
    SAY_CALL("write", write(a, "first ", 6));
    FILE *file = fdopen(a, "w");
    fprintf(file, "second");
    fclose(file);
    a = -1;
    say_rest_of_peer("peer");
    end_batch();
}
