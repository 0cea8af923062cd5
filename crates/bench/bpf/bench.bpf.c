// What the kernel does for one process: its system calls and how long each takes, when its threads leave the CPU and for
// how long, and io_uring's requests from submission to completion, with those that go to a worker.
//
// Compiled by clang for the BPF machine; where fields of the kernel's structures lie is found when it is loaded (CO-RE).
// Needs no header of the kernel's or of libbpf's. Bounded in every way: no loop, maps of a fixed size, in which what finds
// no room is counted in LOST.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define CO_RE __attribute__((preserve_access_index))

// As far as they are read.
struct task_struct {
    int pid;
    int tgid;
} CO_RE;

struct io_kiocb {
    u8 opcode;
} CO_RE;

struct raw_args {
    u64 args[0];
};

struct pidns_info {
    u32 pid;
    u32 tgid;
};

// Helpers, by their numbers in the kernel's interface.
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const now_ns)(void) = (void *)5;
static u64 (*const pid_tgid)(void) = (void *)14;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*const ns_pid_tgid)(u64 dev, u64 ino, struct pidns_info *info, u32 size) = (void *)120;

enum {
    ARRAY = 2,
    HASH = 1,
    CALLS_MAX = 512,
    OPS_MAX = 64,
    // A bucket for each eighth between a power of two of nanoseconds and the next.
    EIGHTHS = 8,
    BUCKETS = 40 * EIGHTHS,
    THREADS_MAX = 16384,
    REQUESTS_MAX = 65536,
};

#define MAP(name, kind, count, key_type, value_type) \
    struct {                                         \
        int (*type)[kind];                           \
        int (*max_entries)[count];                   \
        key_type *key;                               \
        value_type *value;                           \
    } name SEC(".maps")

// On (1) or off; the process in the numbers of the first namespace, once it has made a call; what was lost.
MAP(STATE, ARRAY, 3, u32, u64);
enum { ON, TGID_OUTSIDE, LOST };
MAP(CALLS, ARRAY, CALLS_MAX, u32, u64);
MAP(CALL_NS, ARRAY, CALLS_MAX *BUCKETS, u32, u64);
MAP(OP_NS, ARRAY, OPS_MAX *BUCKETS, u32, u64);
MAP(PUNTS, ARRAY, OPS_MAX, u32, u64);
// Of threads that had to wait, and of those that had to give way.
MAP(OFF_NS, ARRAY, 2 * BUCKETS, u32, u64);
MAP(OFF_SUM_NS, ARRAY, 2, u32, u64);
MAP(SWITCHES, ARRAY, 2, u32, u64);

struct call {
    u64 since;
    u64 number;
};
struct pause {
    u64 since;
    u64 why;
};
MAP(IN_CALL, HASH, THREADS_MAX, u32, struct call);
MAP(OFF, HASH, THREADS_MAX, u32, struct pause);
MAP(FLYING, HASH, REQUESTS_MAX, u64, u64);

// Set when it is loaded.
volatile const u32 TGID = 0;
volatile const u64 NS_DEV = 0;
volatile const u64 NS_INO = 0;

INLINE void add(void *map, u32 index, u64 amount) {
    u64 *value = map_lookup(map, &index);
    if (value)
        __sync_fetch_and_add(value, amount);
}

INLINE u64 state(u32 index) {
    u64 *value = map_lookup(&STATE, &index);
    return value ? *value : 0;
}

INLINE u32 log2(u64 v) {
    u32 r = 0;
    if (v >> 32) { r += 32; v >>= 32; }
    if (v >> 16) { r += 16; v >>= 16; }
    if (v >> 8) { r += 8; v >>= 8; }
    if (v >> 4) { r += 4; v >>= 4; }
    if (v >> 2) { r += 2; v >>= 2; }
    return r + (u32)(v >> 1);
}

INLINE u32 bucket(u64 ns) {
    u32 power = log2(ns | 1);
    u32 eighth = power >= 3 ? (u32)(ns >> (power - 3)) & 7 : (u32)(ns << (3 - power)) & 7;
    u32 index = power * EIGHTHS + eighth;
    return index < BUCKETS ? index : BUCKETS - 1;
}

INLINE int is_ours(void) {
    struct pidns_info info = {};
    return state(ON) && ns_pid_tgid(NS_DEV, NS_INO, &info, sizeof info) == 0 && info.tgid == TGID;
}

SEC("raw_tp/sys_enter")
int sys_enter(struct raw_args *ctx) {
    if (!is_ours())
        return 0;
    u64 both = pid_tgid();
    u32 tid = (u32)both, where = TGID_OUTSIDE;
    u64 *outside = map_lookup(&STATE, &where);
    if (outside && *outside != both >> 32)
        *outside = both >> 32;
    struct call call = {now_ns(), ctx->args[1] < CALLS_MAX ? ctx->args[1] : CALLS_MAX - 1};
    add(&CALLS, (u32)call.number, 1);
    if (map_update(&IN_CALL, &tid, &call, 0))
        add(&STATE, LOST, 1);
    return 0;
}

SEC("raw_tp/sys_exit")
int sys_exit(struct raw_args *ctx) {
    u32 tid = (u32)pid_tgid();
    struct call *call = map_lookup(&IN_CALL, &tid);
    if (!call)
        return 0;
    if (state(ON))
        add(&CALL_NS, (u32)call->number * BUCKETS + bucket(now_ns() - call->since), 1);
    map_delete(&IN_CALL, &tid);
    return 0;
}

SEC("raw_tp/sched_switch")
int sched_switch(struct raw_args *ctx) {
    u64 ours = state(TGID_OUTSIDE);
    if (!ours || !state(ON))
        return 0;
    struct task_struct *from = (void *)ctx->args[1], *to = (void *)ctx->args[2];
    int tgid = 0;
    u32 tid = 0;
    read_kernel(&tgid, sizeof tgid, __builtin_preserve_access_index(&from->tgid));
    if ((u64)tgid == ours) {
        read_kernel(&tid, sizeof tid, __builtin_preserve_access_index(&from->pid));
        // Preempted, or still runnable: it had to give way.
        struct pause pause = {now_ns(), (ctx->args[0] & 1) || (u32)ctx->args[3] == 0};
        add(&SWITCHES, (u32)pause.why, 1);
        if (map_update(&OFF, &tid, &pause, 0))
            add(&STATE, LOST, 1);
    }
    tgid = 0;
    read_kernel(&tgid, sizeof tgid, __builtin_preserve_access_index(&to->tgid));
    if ((u64)tgid == ours) {
        read_kernel(&tid, sizeof tid, __builtin_preserve_access_index(&to->pid));
        struct pause *pause = map_lookup(&OFF, &tid);
        if (pause) {
            u64 ns = now_ns() - pause->since;
            u32 why = pause->why ? 1 : 0;
            add(&OFF_NS, why * BUCKETS + bucket(ns), 1);
            add(&OFF_SUM_NS, why, ns);
            map_delete(&OFF, &tid);
        }
    }
    return 0;
}

INLINE u32 opcode(void *req) {
    u8 code = 0;
    read_kernel(&code, sizeof code, __builtin_preserve_access_index(&((struct io_kiocb *)req)->opcode));
    return code < OPS_MAX ? code : OPS_MAX - 1;
}

SEC("raw_tp/io_uring_submit_req")
int io_uring_submit_req(struct raw_args *ctx) {
    if (!is_ours())
        return 0;
    u64 req = ctx->args[0], now = now_ns();
    if (map_update(&FLYING, &req, &now, 0))
        add(&STATE, LOST, 1);
    return 0;
}

SEC("raw_tp/io_uring_complete")
int io_uring_complete(struct raw_args *ctx) {
    u64 req = ctx->args[1];
    u64 *since = req ? map_lookup(&FLYING, &req) : 0;
    if (!since)
        return 0;
    if (state(ON))
        add(&OP_NS, opcode((void *)req) * BUCKETS + bucket(now_ns() - *since), 1);
    map_delete(&FLYING, &req);
    return 0;
}

SEC("raw_tp/io_uring_queue_async_work")
int io_uring_queue_async_work(struct raw_args *ctx) {
    if (is_ours())
        add(&PUNTS, opcode((void *)ctx->args[0]), 1);
    return 0;
}

// Of the program as the kernel sees it: helpers that read its memory are only for those that the GPL allows.
SEC("license") char LICENSE[] = "Dual MIT/GPL";
