// A handler for signals that end the process: it first removes temporary files.
#pragma once
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>
#include <unistd.h>

namespace fmcli {

// A file that must not outlive the process. Entries are reused and never freed, because a handler can read them at any
// time, in any thread. A forked child does not remove the files of its parent process.
struct Temporary {
    std::atomic<pid_t> owner{0};  // 0: the entry is free
    char path[PATH_MAX];
    Temporary* next = nullptr;
};

inline std::atomic<Temporary*> temporaries{nullptr};

// May call only functions that are async-signal-safe in POSIX.
inline void end_process(int number) {
    for (Temporary* entry = temporaries; entry; entry = entry->next) {
        if (entry->owner == getpid()) unlink(entry->path);
    }
    std::signal(number, SIG_DFL);
    raise(number);  // is delivered after this handler returns
}

// Installs the handler for a signal, unless it is ignored. The process then still ends by this signal.
inline void end_by(int number) {
    struct sigaction action;
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
    std::memset(&action, 0, sizeof action);
    action.sa_handler = end_process;
    sigfillset(&action.sa_mask);
    sigaction(number, &action, nullptr);
}

// Not thread-safe: callers hold the GIL. A handler can run at any point of this function.
inline Temporary* remember(const char* path) {
    Temporary* entry = temporaries;
    while (entry && entry->owner != 0) entry = entry->next;
    if (!entry) {
        entry = new Temporary;
        entry->next = temporaries;
        temporaries = entry;
    }
    std::strncpy(entry->path, path, PATH_MAX - 1);  // a longer path cannot be opened
    entry->path[PATH_MAX - 1] = '\0';
    entry->owner = getpid();
    return entry;
}

inline void forget(Temporary* entry) { entry->owner = 0; }

}  // namespace fmcli
