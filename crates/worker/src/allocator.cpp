// A libtorch CPU allocator that counts exactly and refuses past a cap.
//
// It returns the same memory as libtorch's own CPU allocator (posix_memalign, 64-byte aligned, freed at once). oneDNN's
// buffers (reordered weights, scratchpads) come through it too: libtorch gives oneDNN an allocator that calls
// raw_allocate here. Memory that MKL, OpenMP and the C++ runtime allocate for themselves does not.
//
// While memory is being measured it maps large blocks one by one instead, and unmaps them when they are freed: then the
// resident set is the memory in use, without freed blocks that glibc's heap keeps.
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <c10/core/CPUAllocator.h>

namespace {

// raw_allocate asserts that a DataPtr's context is its data pointer, so the facts of a block can only be stored in
// front of it; a whole alignment unit keeps the block aligned.
struct Header {
  size_t bytes;
  // Length of the block's own mapping; 0 for a block of the heap. Blocks outlive a change of mapping, so each stores
  // its own.
  size_t mapped;
};
constexpr size_t kHeader = c10::gAlignment;
static_assert(kHeader >= sizeof(Header));

// glibc's first threshold for mapping a block; it would raise its own with every freed block.
constexpr size_t kMappedFrom = 128 * 1024;

std::atomic<bool> mapping{false};
std::atomic<uint64_t> current{0};
std::atomic<uint64_t> peak{0};
std::atomic<uint64_t> cap{UINT64_MAX};
std::atomic<bool> refused{false};

void raise_peak(uint64_t now) {
  uint64_t seen = peak.load();
  while (seen < now && !peak.compare_exchange_weak(seen, now)) {
  }
}

// A block of its own pages, or of the heap; its header is filled in but for the bytes. Null when there is no memory.
Header* obtain(size_t whole) {
  if (mapping.load() && whole >= kMappedFrom) {
    static const size_t page = sysconf(_SC_PAGESIZE);
    const size_t length = (whole + page - 1) / page * page;
    void* start = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED) return nullptr;
    static_cast<Header*>(start)->mapped = length;
    return static_cast<Header*>(start);
  }
  void* start = nullptr;
  if (posix_memalign(&start, c10::gAlignment, whole) != 0) return nullptr;
  static_cast<Header*>(start)->mapped = 0;
  return static_cast<Header*>(start);
}

void* take(size_t bytes) {
  const uint64_t now = current.fetch_add(bytes) + bytes;
  Header* header = now > cap.load() ? nullptr : obtain(kHeader + bytes);
  if (header == nullptr) {
    current.fetch_sub(bytes);
    refused.store(true);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory: ", bytes, " bytes more than ", now - bytes, " in use");
  }
  raise_peak(now);
  header->bytes = bytes;
  return reinterpret_cast<char*>(header) + kHeader;
}

void give_back(void* data) {
  if (data == nullptr) return;
  auto* header = reinterpret_cast<Header*>(static_cast<char*>(data) - kHeader);
  current.fetch_sub(header->bytes);
  if (header->mapped != 0) {
    munmap(header, header->mapped);
  } else {
    std::free(header);
  }
}

struct CountingAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* data = bytes == 0 ? nullptr : take(bytes);
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }

  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

CountingAllocator allocator;

}  // namespace

extern "C" {

// Before the first tensor: blocks of another allocator are still freed by that one, but were never counted.
void p4s_install(uint64_t limit) {
  cap.store(limit);
  c10::SetCPUAllocator(&allocator, 255);
}

// Whether large blocks get mappings of their own from now on, or come from a heap that keeps freed memory.
//
// By default glibc gives the top of its heap back to the system when it grows beyond a threshold: after each step or
// never, depending on the place of the last block alive, and every page given back is faulted in anew. Equal steps of
// mobilenetv2 took 325 or 518 ms that way, and 303 to 307 on a heap that keeps its pages.
void p4s_map_large(bool on) {
  mapping.store(on);
  if (on) return;
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

uint64_t p4s_peak() { return peak.load(); }

bool p4s_refused() { return refused.load(); }

// For tests: blocks as libtorch gets them, without it.
void* p4s_take(uint64_t bytes) { return take(bytes); }
void p4s_give_back(void* data) { give_back(data); }
uint64_t p4s_current() { return current.load(); }
}
