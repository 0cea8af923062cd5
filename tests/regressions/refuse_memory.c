/* Refuses the extension's allocations of at least so many bytes, as a process without memory would; everybody else's
   succeed. For LD_PRELOAD. */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <string.h>

static size_t least_bytes = (size_t)-1;
static unsigned long code_start, code_end, refusals;

static int find_code(struct dl_phdr_info *object, size_t size, void *data) {
    if (!object->dlpi_name || !strstr(object->dlpi_name, "/_native."))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            code_start = object->dlpi_addr + part->p_vaddr;
            code_end = code_start + part->p_memsz;
        }
    }
    return 1;
}

int refuse_from(size_t bytes) {
    if (!code_end)
        dl_iterate_phdr(find_code, NULL);
    refusals = 0;
    least_bytes = bytes;
    return code_end != 0;
}

unsigned long refused(void) { return refusals; }

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);

static int refuses(size_t bytes, void *caller) {
    unsigned long at = (unsigned long)caller;
    if (bytes < least_bytes || at < code_start || at >= code_end)
        return 0;
    __atomic_add_fetch(&refusals, 1, __ATOMIC_RELAXED);
    errno = ENOMEM;
    return 1;
}

#define REFUSES(bytes) refuses(bytes, __builtin_return_address(0))

void *malloc(size_t bytes) { return REFUSES(bytes) ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return REFUSES(count * bytes) ? NULL : __libc_calloc(count, bytes); }
void *realloc(void *old, size_t bytes) { return REFUSES(bytes) ? NULL : __libc_realloc(old, bytes); }
int posix_memalign(void **result, size_t alignment, size_t bytes) {
    if (REFUSES(bytes))
        return ENOMEM;
    *result = __libc_memalign(alignment, bytes);
    return *result ? 0 : ENOMEM;
}
