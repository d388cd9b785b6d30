// The functions of libtorch's CUDA half that the interfaces of its CPU half offer: the allocator's counters, events,
// settings.
//
// The CUDA half is loaded at run time, into a program that is linked without it, so only functions that c10 and ATen
// declare for all accelerators can be called here. Call nothing before it is loaded: the result of the first check for
// CUDA is cached and never changes.
#include <cstdint>
#include <cstdio>
#include <memory>

#include <ATen/Context.h>
#include <c10/core/AllocatorConfig.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>

#include "attempt.h"

namespace {

using perf4sight::attempt;

constexpr auto kGpu = c10::DeviceType::CUDA;

const c10::impl::DeviceGuardImplInterface& guard() { return *c10::impl::getDeviceGuardImpl(kGpu); }

c10::Device gpu(int index) { return c10::Device(kGpu, static_cast<c10::DeviceIndex>(index)); }

// Sums over the small and the large blocks.
const auto& whole(const c10::CachingAllocator::StatArray& stats) {
  return stats[static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
}

void limit(double share) {
  char setting[64];
  // A small limit on a large card takes more digits than std::to_string has.
  std::snprintf(setting, sizeof setting, "per_process_memory_fraction:%.12f", share);
  c10::CachingAllocator::setAllocatorSettings(setting);
}

}  // namespace

extern "C" {

// As gpu.rs declares it.
struct p4s_gpu_counters {
  uint64_t allocated;
  uint64_t reserved;
  uint64_t reserved_now;
  uint64_t retries;
  uint64_t refusals;
};

// How many GPUs libtorch can use; the CUDA runtime's and cuDNN's versions as they number them.
bool p4s_gpu_look(int64_t* count, int64_t* runtime, int64_t* cudnn) {
  return attempt([&] {
    const auto& hooks = at::detail::getCUDAHooks();
    *runtime = hooks.hasCUDART() ? hooks.versionCUDART() : 0;
    *count = *runtime == 0 ? 0 : hooks.deviceCount();
    *cudnn = *count == 0 || !hooks.hasCuDNN() ? 0 : hooks.versionRuntimeCuDNN();
  });
}

// Makes this thread use a GPU. The allocator reads its share of the memory when it first allocates, so this comes before any
// tensor; a share of 1 is no limit.
bool p4s_gpu_use(int index, double share, bool tf32, bool benchmark) {
  return attempt([&] {
    if (share < 1) limit(share);
    auto& context = at::globalContext();
    context.lazyInitDevice(kGpu);
    context.setAllowTF32CuBLAS(tf32);
    context.setAllowTF32CuDNN(tf32);
    context.setBenchmarkCuDNN(benchmark);
    guard().setDevice(gpu(index));
  });
}

// Waits until the GPU has finished all queued work.
bool p4s_gpu_settle(int index) {
  return attempt([&] { guard().synchronizeDevice(static_cast<c10::DeviceIndex>(index)); });
}

// Returns cached memory to the device and resets the peaks.
bool p4s_gpu_forget(int index) {
  return attempt([&] {
    auto* allocator = c10::getDeviceAllocator(kGpu);
    allocator->emptyCache();
    allocator->resetPeakStats(static_cast<c10::DeviceIndex>(index));
  });
}

bool p4s_gpu_count(int index, p4s_gpu_counters* counters) {
  return attempt([&] {
    const auto stats = c10::getDeviceAllocator(kGpu)->getDeviceStats(static_cast<c10::DeviceIndex>(index));
    counters->allocated = whole(stats.allocated_bytes).peak;
    counters->reserved = whole(stats.reserved_bytes).peak;
    counters->reserved_now = whole(stats.reserved_bytes).current;
    counters->retries = stats.num_alloc_retries;
    counters->refusals = stats.num_ooms;
  });
}

// Free and total bytes by cudaMemGetInfo, of all processes.
bool p4s_gpu_memory(int index, uint64_t* free, uint64_t* total) {
  return attempt([&] {
    const auto info = c10::getDeviceAllocator(kGpu)->getMemoryInfo(static_cast<c10::DeviceIndex>(index));
    *free = info.first;
    *total = info.second;
  });
}

// An event after all work that this thread has queued on the GPU so far; null where that failed.
void* p4s_event_new(int index) {
  c10::Event* event = nullptr;
  attempt([&] {
    // BACKEND_DEFAULT enables timing; PyTorch's own default does not.
    auto recorded = std::make_unique<c10::Event>(kGpu, c10::EventFlag::BACKEND_DEFAULT);
    recorded->record(guard().getStream(gpu(index)));
    event = recorded.release();
  });
  return event;
}

void p4s_event_free(void* event) { delete static_cast<c10::Event*>(event); }

// Milliseconds between two events that the GPU has passed.
bool p4s_event_elapsed(const void* from, const void* to, double* milliseconds) {
  return attempt([&] {
    *milliseconds = static_cast<const c10::Event*>(from)->elapsedTime(*static_cast<const c10::Event*>(to));
  });
}
}
