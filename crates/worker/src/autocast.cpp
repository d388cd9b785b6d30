// PyTorch's autocast on any kind of device, and the functions of its gradient scaler: tch supports autocast on CUDA only,
// and lacks the scaler's functions on lists of tensors.
#include <cstddef>
#include <vector>

#include <ATen/autocast_mode.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>

#include "attempt.h"

namespace {

using perf4sight::attempt;

c10::DeviceType kind(bool gpu) { return gpu ? c10::DeviceType::CUDA : c10::DeviceType::CPU; }

}  // namespace

extern "C" {

// As torch.autocast on entry (torch/amp/autocast_mode.py).
bool p4s_autocast_begin(bool gpu, bool half) {
  return attempt([&] {
    at::autocast::set_autocast_enabled(kind(gpu), true);
    at::autocast::set_autocast_dtype(kind(gpu), half ? at::kHalf : at::kBFloat16);
    at::autocast::increment_nesting();
    at::autocast::set_autocast_cache_enabled(true);
  });
}

// As PyTorch does on exit: the end of the outermost one frees the cached casts of weights.
bool p4s_autocast_end(bool gpu) {
  return attempt([&] {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(kind(gpu), false);
  });
}

// Divides gradients, each an at::Tensor, by the scale of the loss, and notes in `found` whether one of them is no number.
bool p4s_unscale(const void* const* gradients, size_t count, void* found, const void* inverse_scale) {
  return attempt([&] {
    std::vector<at::Tensor> all;
    for (size_t i = 0; i < count; i++) all.push_back(*static_cast<const at::Tensor*>(gradients[i]));
    at::_amp_foreach_non_finite_check_and_unscale_(all, *static_cast<at::Tensor*>(found),
                                                   *static_cast<const at::Tensor*>(inverse_scale));
  });
}
}
