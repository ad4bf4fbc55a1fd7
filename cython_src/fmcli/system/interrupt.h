// What a signal that ends the process does first: it removes temporary files.
#pragma once
#include <atomic>
#include <climits>
#include <csignal>
#include <cstring>
#include <unistd.h>

namespace fmcli {

// A file that must not outlive the process. Entries are made once and used again, never freed: a handler may read them
// at any moment, in any thread. Those of a parent process are none of a forked child's business.
struct Temporary {
    std::atomic<pid_t> owner{0};  // 0: the entry is free
    char path[PATH_MAX];
    Temporary* next = nullptr;
};

inline std::atomic<Temporary*> temporaries{nullptr};

// Only what POSIX calls async-signal-safe.
inline void end_process(int number) {
    for (Temporary* entry = temporaries; entry; entry = entry->next) {
        if (entry->owner == getpid()) unlink(entry->path);
    }
    std::signal(number, SIG_DFL);
    raise(number);  // comes when this handler has returned
}

// Makes a signal end the process by that very signal, unless it is ignored.
inline void end_by(int number) {
    struct sigaction action;
    if (sigaction(number, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
    std::memset(&action, 0, sizeof action);
    action.sa_handler = end_process;
    sigfillset(&action.sa_mask);
    sigaction(number, &action, nullptr);
}

// Callers take turns; a handler may come in between.
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
