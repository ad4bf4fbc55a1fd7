// A handler for signals that end the process: it first removes temporary files. Some signals may be deferred once.
#pragma once
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>

namespace fmcli {

// A file that must not outlive the process. Entries are reused and never freed, because a handler can read them at any
// time, in any thread. A forked child does not remove its parent's files.
struct Temporary {
    std::atomic<pid_t> owner{0};  // 0: the entry is free
    char path[PATH_MAX];
    bool known;  // whether device and inode are the file's; then another file at this path stays
    dev_t device;
    ino_t inode;
    Temporary* next = nullptr;
};

inline std::atomic<Temporary*> temporaries{nullptr};

// While signals are deferred, the first SIGINT or SIGTERM is only recorded here. The next signal ends the process.
inline std::atomic<bool> deferring{false};
inline std::atomic<int> deferred{0};

// May call only functions that are async-signal-safe in POSIX.
inline void remove_temporaries() {
    for (Temporary* entry = temporaries; entry; entry = entry->next) {
        if (entry->owner != getpid()) continue;
        struct stat found;
        const bool same = !entry->known || (lstat(entry->path, &found) == 0 && found.st_dev == entry->device &&
                                            found.st_ino == entry->inode);
        if (same) unlink(entry->path);
    }
}

inline void end_process(int number) {
    remove_temporaries();
    std::signal(number, SIG_DFL);
    raise(number);  // is delivered after this handler returns
}

inline void end_process_or_defer(int number) {
    int none = 0;
    if (!deferring || !deferred.compare_exchange_strong(none, number)) end_process(number);
}

// SIGBUS: a page of a mapped file cannot be read, because the file was truncated or its disk fails. Ends the process
// with the exit status of an I/O error.
inline void end_by_lost_page(int) {
    constexpr int IO_ERROR = 74;
    constexpr char TEXT[] = "fmcli: error: the model file was truncated, or cannot be read, while it is in use\n";
    remove_temporaries();
    (void)!write(STDERR_FILENO, TEXT, sizeof TEXT - 1);
    _exit(IO_ERROR);
}

// Installs the handler for a signal, unless it is ignored. The process still ends by this signal.
inline void end_by(int number, void (*handler)(int) = end_process) {
    struct sigaction action;
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
    std::memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    sigfillset(&action.sa_mask);
    sigaction(number, &action, nullptr);
}

// Not thread-safe: callers hold the GIL. A handler can run at any point of this function.
inline Temporary* remember(const char* path, int descriptor) {
    Temporary* entry = temporaries;
    while (entry && entry->owner != 0) entry = entry->next;
    if (!entry) {
        entry = new Temporary;
        entry->next = temporaries;
        temporaries = entry;
    }
    std::strncpy(entry->path, path, PATH_MAX - 1);  // a longer path cannot be opened
    entry->path[PATH_MAX - 1] = '\0';
    struct stat found;
    entry->known = descriptor >= 0 && fstat(descriptor, &found) == 0;
    if (entry->known) {
        entry->device = found.st_dev;
        entry->inode = found.st_ino;
    }
    entry->owner = getpid();
    return entry;
}

inline void forget(Temporary* entry) { entry->owner = 0; }

}  // namespace fmcli
