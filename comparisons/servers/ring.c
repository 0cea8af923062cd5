/* Echo by io_uring: multishot receives into a ring of buffers, and sends of those buffers through the ring.
   Raw system calls, so that only the kernel's headers are needed (Linux 6.1 or newer).

   Options: buffers=32 (a power of two), bytes=16384 of each, send=queued|direct; receive=poll takes multishot polls
   with a recv and a send by calls instead, and ends where a socket does not take a reply. */
#define _GNU_SOURCE
#include "echo.h"
#include <errno.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { ENTRIES = 2048, COMPLETIONS = 8192, GROUP = 1, MAX_IOV = 64, NONE = -1 };
enum kind { ACCEPT, RECEIVE, SEND, POLL, CANCEL };

struct connection {
    int open, receiving, sending, ended, starved;
    /* Received buffers that are not sent yet, linked by `buffers[].next`. */
    int first, last;
    struct msghdr message;
    struct iovec iov[MAX_IOV];
};

/* What of a buffer is not sent yet. */
struct received {
    int next;
    unsigned start, len;
};

OF_THREAD struct counters counters;
static unsigned buffer_count = 32, buffer_len = 16 << 10;
static int send_directly, polling;
static OF_THREAD struct connection *connections[MAX_DESCRIPTORS];
static OF_THREAD struct {
    int fd;
    unsigned *sq_head, *sq_tail, *cq_head, *cq_tail, sq_mask, cq_mask, submitted, tail;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *completions;
} ring;
static OF_THREAD struct io_uring_buf_ring *pool;
static OF_THREAD struct received *received;
static OF_THREAD char *bytes;
static OF_THREAD unsigned pool_tail;
/* Buffers in the connections' queues. */
static OF_THREAD unsigned held;
static OF_THREAD int listening;
/* Connections whose receive found no buffer, in the order in which they did. */
static OF_THREAD int starved[MAX_DESCRIPTORS];
static OF_THREAD unsigned starved_head, starved_tail;

int server_option(const char *name, const char *value) {
    if (!strcmp(name, "buffers"))
        buffer_count = atoi(value);
    else if (!strcmp(name, "bytes"))
        buffer_len = atoi(value);
    else if (!strcmp(name, "send"))
        send_directly = !strcmp(value, "direct");
    else if (!strcmp(name, "receive"))
        polling = !strcmp(value, "poll");
    else
        return 0;
    return 1;
}

/* The ring */

static void *map(size_t len, uint64_t offset) {
    void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring.fd, offset);
    if (at == MAP_FAILED)
        die("mmap of the ring");
    return at;
}

static void set_up(void) {
    struct io_uring_params params = {
        .flags = IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN,
        .cq_entries = COMPLETIONS,
    };
    ring.fd = syscall(SYS_io_uring_setup, ENTRIES, &params);
    if (ring.fd < 0)
        die("io_uring_setup");
    size_t sq_len = params.sq_off.array + params.sq_entries * sizeof(unsigned);
    size_t cq_len = params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe);
    char *rings = map(sq_len > cq_len ? sq_len : cq_len, IORING_OFF_SQ_RING);
    ring.entries = map(params.sq_entries * sizeof(struct io_uring_sqe), IORING_OFF_SQES);
    ring.sq_head = (unsigned *)(rings + params.sq_off.head);
    ring.sq_tail = (unsigned *)(rings + params.sq_off.tail);
    ring.sq_mask = *(unsigned *)(rings + params.sq_off.ring_mask);
    ring.cq_head = (unsigned *)(rings + params.cq_off.head);
    ring.cq_tail = (unsigned *)(rings + params.cq_off.tail);
    ring.cq_mask = *(unsigned *)(rings + params.cq_off.ring_mask);
    ring.completions = (struct io_uring_cqe *)(rings + params.cq_off.cqes);
    for (unsigned i = 0; i < params.sq_entries; i++)
        ((unsigned *)(rings + params.sq_off.array))[i] = i;
}

/* Registers the ring's own descriptor: calls then name it by an index, which saves looking it up. */
static void register_descriptor(void) {
    struct io_uring_rsrc_update registered = {.offset = -1U, .data = ring.fd};
    if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_RING_FDS, &registered, 1) != 1)
        die("IORING_REGISTER_RING_FDS");
    ring.fd = registered.offset;
}

/* Hands over what has been pushed, and waits for `least` completions. */
static void enter(unsigned least) {
    unsigned flags = IORING_ENTER_REGISTERED_RING | IORING_ENTER_GETEVENTS;
    __atomic_store_n(ring.sq_tail, ring.tail, __ATOMIC_RELEASE);
    int done = syscall(SYS_io_uring_enter, ring.fd, ring.tail - ring.submitted, least, flags, NULL, 0);
    counters.calls++;
    if (done >= 0)
        ring.submitted += done;
    else if (errno != EINTR && errno != EAGAIN && errno != EBUSY)
        die("io_uring_enter");
}

static struct io_uring_sqe *push(enum kind kind, int opcode, int fd) {
    while (ring.tail - __atomic_load_n(ring.sq_head, __ATOMIC_ACQUIRE) > ring.sq_mask)
        enter(0);
    struct io_uring_sqe *entry = &ring.entries[ring.tail++ & ring.sq_mask];
    memset(entry, 0, sizeof *entry);
    entry->opcode = opcode;
    entry->fd = fd;
    entry->user_data = (uint64_t)kind << 32 | (unsigned)fd;
    return entry;
}

/* The pool of buffers */

static void give(int buffer) {
    struct io_uring_buf *slot = &pool->bufs[pool_tail & (buffer_count - 1)];
    slot->addr = (uintptr_t)(bytes + (size_t)buffer * buffer_len);
    slot->len = buffer_len;
    slot->bid = buffer;
    __atomic_store_n(&pool->tail, (unsigned short)++pool_tail, __ATOMIC_RELEASE);
}

static void make_pool(void) {
    pool = mmap(NULL, buffer_count * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    bytes = aligned_alloc(4096, (size_t)buffer_count * buffer_len);
    received = calloc(buffer_count, sizeof *received);
    if (pool == MAP_FAILED || !bytes || !received)
        die("the pool");
    memset(bytes, 0, (size_t)buffer_count * buffer_len);
    struct io_uring_buf_reg described = {.ring_addr = (uintptr_t)pool, .ring_entries = buffer_count, .bgid = GROUP};
    if (syscall(SYS_io_uring_register, ring.fd, IORING_REGISTER_PBUF_RING, &described, 1))
        die("IORING_REGISTER_PBUF_RING");
    for (unsigned i = 0; i < buffer_count; i++)
        give(i);
}

/* Connections */

static void receive(int fd) {
    if (polling) {
        struct io_uring_sqe *poll = push(POLL, IORING_OP_POLL_ADD, fd);
        poll->poll32_events = POLLIN | POLLRDHUP;
        poll->len = IORING_POLL_ADD_MULTI;
        connections[fd]->receiving = 1;
        return;
    }
    struct io_uring_sqe *entry = push(RECEIVE, IORING_OP_RECV, fd);
    entry->ioprio = IORING_RECV_MULTISHOT;
    entry->flags = IOSQE_BUFFER_SELECT;
    entry->buf_group = GROUP;
    connections[fd]->receiving = 1;
}

static void accept_more(void) {
    struct io_uring_sqe *entry = push(ACCEPT, IORING_OP_ACCEPT, listening);
    entry->ioprio = IORING_ACCEPT_MULTISHOT;
    entry->accept_flags = SOCK_CLOEXEC;
}

void server_start(int listener) {
    listening = listener;
    set_up();
    make_pool();
    register_descriptor();
    accept_more();
}

static void accepted(int fd) {
    int one = 1;
    if (fd >= MAX_DESCRIPTORS) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    counters.calls++;
    counters.accepted++;
    if (!connections[fd] && !(connections[fd] = malloc(sizeof(struct connection))))
        die("malloc");
    memset(connections[fd], 0, sizeof(struct connection));
    connections[fd]->open = 1;
    connections[fd]->first = connections[fd]->last = NONE;
    receive(fd);
}

/* Takes the first buffer of the queue and gives it back to the kernel, and to a receive that waits for one. */
static void release_first(struct connection *c) {
    int buffer = c->first;
    c->first = received[buffer].next;
    if (c->first == NONE)
        c->last = NONE;
    give(buffer);
    held--;
    while (starved_head != starved_tail) {
        int fd = starved[starved_head++ % MAX_DESCRIPTORS];
        struct connection *waiting = connections[fd];
        if (!waiting->starved)
            continue;
        waiting->starved = 0;
        if (waiting->open && !waiting->ended && !waiting->receiving) {
            receive(fd);
            return;
        }
    }
}

static void sent(struct connection *c, size_t len) {
    counters.sent += len;
    while (len > 0 && c->first != NONE) {
        struct received *part = &received[c->first];
        if (len < part->len) {
            part->start += len;
            part->len -= len;
            return;
        }
        len -= part->len;
        release_first(c);
    }
}

/* The queue's buffers, as many as one message can name. */
static int gather(struct connection *c) {
    int count = 0;
    for (int b = c->first; b != NONE && count < MAX_IOV; b = received[b].next, count++) {
        c->iov[count].iov_base = bytes + (size_t)b * buffer_len + received[b].start;
        c->iov[count].iov_len = received[b].len;
    }
    c->message.msg_iov = c->iov;
    c->message.msg_iovlen = count;
    return count;
}

/* Two sends of one socket may be reordered, so one is in flight at a time. */
static void send_queue(int fd) {
    struct connection *c = connections[fd];
    if (c->sending || c->first == NONE)
        return;
    struct io_uring_sqe *entry;
    if (gather(c) == 1) {
        entry = push(SEND, IORING_OP_SEND, fd);
        entry->addr = (uintptr_t)c->iov[0].iov_base;
        entry->len = c->iov[0].iov_len;
    } else {
        entry = push(SEND, IORING_OP_SENDMSG, fd);
        entry->addr = (uintptr_t)&c->message;
        entry->len = 1;
    }
    entry->msg_flags = MSG_NOSIGNAL;
    c->sending = 1;
}

/* Sends by calls, and through the ring what the socket does not take at once. */
static void send_now(int fd) {
    struct connection *c = connections[fd];
    while (!c->sending && c->first != NONE) {
        gather(c);
        ssize_t len = sendmsg(fd, &c->message, MSG_NOSIGNAL | MSG_DONTWAIT);
        counters.calls++;
        if (len >= 0)
            sent(c, len);
        else if (errno == EAGAIN)
            send_queue(fd);
        else {
            c->ended = 1;
            return;
        }
    }
}

/* A descriptor is closed after the last completion that belongs to it. */
static void close_ended(int fd) {
    struct connection *c = connections[fd];
    if (!c->ended || c->sending)
        return;
    if (c->receiving) {
        if (polling)
            push(CANCEL, IORING_OP_ASYNC_CANCEL, fd)->cancel_flags = IORING_ASYNC_CANCEL_FD | IORING_ASYNC_CANCEL_ALL;
        else
            shutdown(fd, SHUT_RDWR);
        return;
    }
    while (c->first != NONE)
        release_first(c);
    c->open = 0;
    close(fd);
}

static void on_receive(int fd, int result, unsigned flags) {
    struct connection *c = connections[fd];
    c->receiving = !!(flags & IORING_CQE_F_MORE);
    if (result > 0) {
        int buffer = flags >> IORING_CQE_BUFFER_SHIFT;
        received[buffer] = (struct received){.next = NONE, .len = result};
        if (c->last == NONE)
            c->first = buffer;
        else
            received[c->last].next = buffer;
        c->last = buffer;
        held++;
        if (!c->ended)
            send_directly ? send_now(fd) : send_queue(fd);
    } else if (result == -ENOBUFS) {
        /* Buffers may have come back between this completion and now. */
        if (held == buffer_count) {
            c->starved = 1;
            starved[starved_tail++ % MAX_DESCRIPTORS] = fd;
        }
    } else
        c->ended = 1;
    if (!c->receiving && !c->ended && !c->starved)
        receive(fd);
    close_ended(fd);
}

static void on_poll(int fd, int result, unsigned flags) {
    static OF_THREAD char hot[128 << 10];
    struct connection *c = connections[fd];
    ssize_t len = sizeof hot;
    c->receiving = !!(flags & IORING_CQE_F_MORE);
    /* A poll tells of what is new, so the socket is read until it has no more. */
    while (result >= 0 && !c->ended && len == sizeof hot) {
        len = recv(fd, hot, sizeof hot, MSG_DONTWAIT);
        counters.calls++;
        if (len <= 0) {
            c->ended = len == 0 || errno != EAGAIN;
            break;
        }
        counters.calls++;
        if (send(fd, hot, len, MSG_NOSIGNAL | MSG_DONTWAIT) != len)
            die("send: the socket does not take all");
        counters.sent += len;
    }
    if (!c->receiving && !c->ended)
        receive(fd);
    close_ended(fd);
}

static void on_send(int fd, int result) {
    struct connection *c = connections[fd];
    c->sending = 0;
    if (result >= 0) {
        sent(c, result);
        send_directly ? send_now(fd) : send_queue(fd);
    } else
        c->ended = 1;
    close_ended(fd);
}

void server_turn(int wait) {
    enter(wait ? 1 : 0);
    unsigned head = *ring.cq_head, tail = __atomic_load_n(ring.cq_tail, __ATOMIC_ACQUIRE);
    for (; head != tail; head++) {
        struct io_uring_cqe *done = &ring.completions[head & ring.cq_mask];
        int fd = (int)(done->user_data & 0xffffffff);
        switch ((enum kind)(done->user_data >> 32)) {
        case ACCEPT:
            if (done->res >= 0)
                accepted(done->res);
            if (!(done->flags & IORING_CQE_F_MORE))
                accept_more();
            break;
        case RECEIVE:
            on_receive(fd, done->res, done->flags);
            break;
        case SEND:
            on_send(fd, done->res);
            break;
        case POLL:
            on_poll(fd, done->res, done->flags);
            break;
        case CANCEL:
            break;
        }
    }
    __atomic_store_n(ring.cq_head, head, __ATOMIC_RELEASE);
}
