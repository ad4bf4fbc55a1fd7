// Makes system calls of a process fail, as if the disk were full or an input changed. Preloaded by table.py (LD_PRELOAD),
// with these variables of the environment:
//
//     FAULT_WRITE=N   the N-th operation that writes to a regular file in FAULT_FOLDER fails: opening it to be created,
//                     writing (half of the bytes are written), fsync, or rename; and so do all that follow, with ENOSPC
//     FAULT_ERROR=E   with this number of an error instead
//     FAULT_READ=N    what FAULT_ACTION says happens at the N-th read of FAULT_INPUT: it fails with EIO ("error"), or the
//                     file is truncated ("truncate") or removed ("remove") before it
//     FAULT_COUNT=F   the numbers of operations that write and read are written to this file at the end
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static long writes, reads;

static long number(const char* name) {
    const char* text = getenv(name);
    return text ? atol(text) : 0;
}

static int error(void) { return getenv("FAULT_ERROR") ? (int)number("FAULT_ERROR") : ENOSPC; }

static int starts_with(const char* text, const char* begin) { return begin && strncmp(text, begin, strlen(begin)) == 0; }

static int path_of(int file, char* path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length > 0) path[length] = 0;
    return length > 0;
}

// Whether this operation in the folder fails; counts it.
static int fails(const char* path) {
    if (!starts_with(path, getenv("FAULT_FOLDER"))) return 0;
    const long at = number("FAULT_WRITE"), here = __sync_add_and_fetch(&writes, 1);
    if (!at || here < at) return 0;
    errno = error();
    return here == at ? 1 : 2;
}

static int file_fails(int file) {
    char path[PATH_MAX];
    struct stat status;
    const int before = errno;
    const int regular = fstat(file, &status) == 0 && S_ISREG(status.st_mode) && path_of(file, path);
    errno = before;
    return regular ? fails(path) : 0;
}

#define ORIGINAL(name, type) ((type)dlsym(RTLD_NEXT, name))

ssize_t write(int file, const void* data, size_t size) {
    ssize_t (*original)(int, const void*, size_t) = ORIGINAL("write", ssize_t(*)(int, const void*, size_t));
    switch (file_fails(file)) {
        case 1: if (size > 1) return original(file, data, size / 2);  // fall through
        case 2: errno = error(); return -1;
    }
    return original(file, data, size);
}

int fsync(int file) { return file_fails(file) ? -1 : ORIGINAL("fsync", int (*)(int))(file); }

int rename(const char* from, const char* to) {
    char path[PATH_MAX];
    if (realpath(from, path) && fails(path)) return -1;
    return ORIGINAL("rename", int (*)(const char*, const char*))(from, to);
}

static int open_with(const char* name, const char* path, int flags, va_list more) {
    const int mode = flags & O_CREAT ? va_arg(more, int) : 0;
    if (flags & O_CREAT) {
        char whole[PATH_MAX] = "";
        if (path[0] != '/' && getcwd(whole, sizeof whole)) strncat(whole, "/", sizeof whole - strlen(whole) - 1);
        strncat(whole, path, sizeof whole - strlen(whole) - 1);
        if (fails(whole)) return -1;
    }
    return ORIGINAL(name, int (*)(const char*, int, ...))(path, flags, mode);
}

#define OPEN(name)                               \
    int name(const char* path, int flags, ...) { \
        va_list more;                            \
        va_start(more, flags);                   \
        const int file = open_with(#name, path, flags, more); \
        va_end(more);                            \
        return file;                             \
    }
OPEN(open)
OPEN(open64)

ssize_t read(int file, void* data, size_t size) {
    const char *input = getenv("FAULT_INPUT"), *action = getenv("FAULT_ACTION");
    char path[PATH_MAX];
    if (input && path_of(file, path) && strcmp(path, input) == 0) {
        if (__sync_add_and_fetch(&reads, 1) == number("FAULT_READ") && action) {
            if (strcmp(action, "error") == 0) {
                errno = EIO;
                return -1;
            }
            if (strcmp(action, "remove") == 0) unlink(path);
            else if (truncate(path, 0) != 0) abort();
        }
    }
    return ORIGINAL("read", ssize_t(*)(int, void*, size_t))(file, data, size);
}

// The command ends by _exit.
void _exit(int status) {
    const char* path = getenv("FAULT_COUNT");
    FILE* file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%ld %ld\n", writes, reads);
        fclose(file);
    }
    ORIGINAL("_exit", void (*)(int))(status);
    __builtin_unreachable();
}
