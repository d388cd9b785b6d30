// A libtorch CPU allocator that counts exactly and refuses past a cap.
//
// It hands out what libtorch's own CPU allocator hands out (posix_memalign, 64-byte aligned, freed at once), so a step
// costs the same time with it. oneDNN's buffers (reordered weights, scratchpads) come through it too: libtorch gives
// oneDNN an allocator that calls raw_allocate here. What MKL, OpenMP and the C++ runtime take for themselves does not.
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include <c10/core/CPUAllocator.h>

namespace {

// raw_allocate asserts that a DataPtr's context is its data pointer, so a block's size has no place but in front of it;
// a whole alignment unit keeps the block aligned.
constexpr size_t kHeader = c10::gAlignment;
static_assert(kHeader >= sizeof(size_t));

std::atomic<uint64_t> current{0};
std::atomic<uint64_t> peak{0};
std::atomic<uint64_t> cap{UINT64_MAX};
std::atomic<bool> refused{false};

void raise_peak(uint64_t now) {
  uint64_t seen = peak.load();
  while (seen < now && !peak.compare_exchange_weak(seen, now)) {
  }
}

void* take(size_t bytes) {
  const uint64_t now = current.fetch_add(bytes) + bytes;
  void* start = nullptr;
  if (now > cap.load() || posix_memalign(&start, c10::gAlignment, kHeader + bytes) != 0) {
    current.fetch_sub(bytes);
    refused.store(true);
    TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory: ", bytes, " bytes more than ", now - bytes, " in use");
  }
  raise_peak(now);
  *static_cast<size_t*>(start) = bytes;
  return static_cast<char*>(start) + kHeader;
}

void give_back(void* data) {
  if (data == nullptr) return;
  void* start = static_cast<char*>(data) - kHeader;
  current.fetch_sub(*static_cast<size_t*>(start));
  std::free(start);
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

uint64_t p4s_peak() { return peak.load(); }

bool p4s_refused() { return refused.load(); }
}
