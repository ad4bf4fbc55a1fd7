// Growing arrays.
#ifndef FMCLI_ARRAYS_H
#define FMCLI_ARRAYS_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <sys/mman.h>

namespace fmcli {

// Requests huge pages for memory that is about to be written. Does nothing if the system has none.
inline void ask_for_huge_pages(void* begin, size_t bytes) {
    constexpr uintptr_t HUGE_PAGE = 2 << 20;
    const uintptr_t at = reinterpret_cast<uintptr_t>(begin);
    const uintptr_t first = (at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, last = (at + bytes) / HUGE_PAGE * HUGE_PAGE;
#ifdef MADV_HUGEPAGE
    if (first < last) (void)madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)first, (void)last;
#endif
}

// A growing array of plain numbers. std::vector copies its elements when it grows, and initializes new elements. Here,
// realloc moves the pages of a large array, and capacity that is never written takes no physical memory. Large arrays
// request huge pages, because rows are read in random order: with small pages, address lookups (TLB misses) take a
// tenth of the time of an epoch.
template <typename T>
class Array {
  public:
    Array() = default;
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    Array(Array&& other) { swap(other); }
    ~Array() { std::free(data_); }

    T* data() { return data_; }
    const T* data() const { return data_; }
    size_t size() const { return size_; }
    size_t capacity() const { return capacity_; }
    T& operator[](size_t i) { return data_[i]; }
    const T& operator[](size_t i) const { return data_[i]; }
    void resize(size_t size) { size_ = size; }  // within the capacity; new items are uninitialized

    void reserve(size_t capacity) {
        if (capacity <= capacity_) return;
        capacity = std::max(capacity, capacity_ + capacity_ / 2);
        data_ = moved(capacity * sizeof(T));
        capacity_ = capacity;
        ask_for_huge_pages(data_, capacity * sizeof(T));
    }

    void push(T item) {
        if (size_ == capacity_) reserve(size_ + 1);
        data_[size_++] = item;
    }

    void swap(Array& other) {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

    // Returns the memory, shrunk to the size; the caller must free it. Returns nullptr if the array is empty.
    T* release() {
        T* data = data_;
        if (size_ == 0) {
            std::free(data);
            data = nullptr;
        } else if (void* cut = std::realloc(data, size_ * sizeof(T))) {
            data = static_cast<T*>(cut);
        }
        data_ = nullptr;
        size_ = capacity_ = 0;
        return data;
    }

  private:
    T* data_ = nullptr;
    size_t size_ = 0, capacity_ = 0;

    // Moves the items to memory of another size. For a type with an alignment of its own, the memory begins at a cache
    // line, so no item lies in two lines; realloc would not keep this.
    T* moved(size_t bytes) {
        constexpr size_t CACHE_LINE = 64;
        void* memory = nullptr;
        if constexpr (alignof(T) <= alignof(std::max_align_t)) {
            memory = std::realloc(data_, bytes);
        } else if (posix_memalign(&memory, std::max(alignof(T), CACHE_LINE), bytes) == 0) {
            if (size_) std::memcpy(memory, data_, size_ * sizeof(T));
            std::free(data_);
        }
        if (!memory) throw std::bad_alloc();
        return static_cast<T*>(memory);
    }
};

// Doubles a hash table, with empty slots. Returns the old table; the caller inserts its slots again.
template <typename Slot>
Array<Slot> doubled(Array<Slot>& slots) {
    constexpr size_t FEWEST = 64;
    const size_t size = std::max(2 * slots.size(), FEWEST);
    Array<Slot> old;
    old.reserve(size);
    old.resize(size);
    std::fill_n(old.data(), size, Slot{});
    old.swap(slots);
    return old;
}

}  // namespace fmcli

#endif
