// Segments of a forward pass that keep only their inputs and run again in backward: torch/utils/checkpoint.py without
// reentrance, with libtorch's own hooks for the tensors that autograd saves.
//
// While a segment runs, every tensor that autograd saves is counted and released. The first one that backward requests
// runs the segment again and stores the saved tensors by number; the run stops as soon as all are stored. The second
// graph is freed at once, and each stored tensor with its only reader.
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include "attempt.h"

namespace {

using perf4sight::attempt;
using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

// Runs the operations of a segment; false where one of them fails, which it does on purpose when enough tensors are
// stored.
using Again = bool (*)(const void* context);
using Drop = void (*)(void* context);

// Thrown through an operation: the rest of its segment is not needed.
struct Noted : std::exception {
  const char* what() const noexcept override { return "the segment has run far enough"; }
};

// The generator of a device as it was, so that a segment that runs again draws the same.
class Draws {
 public:
  explicit Draws(const at::Generator& generator) : generator_(generator) {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    state_ = generator_.get_state();
  }

  void restore() {
    const std::lock_guard<std::mutex> lock(generator_.mutex());
    generator_.set_state(state_);
  }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

std::vector<Draws> draws(bool cuda) {
  std::vector<Draws> all{Draws(at::detail::getDefaultCPUGenerator())};
  if (cuda) all.emplace_back(at::globalContext().defaultGenerator(at::Device(at::kCUDA)));
  return all;
}

class Frame;
// What autograd saves on this thread goes to the one, or is noted in the other.
thread_local std::shared_ptr<Frame> saving;
thread_local Frame* noting = nullptr;

class Frame {
 public:
  Frame(Again again, Drop drop, void* context, bool cuda)
      : again_(again), drop_(drop), context_(context), cuda_(cuda), draws_(draws(cuda)) {}
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;
  ~Frame() { drop_(context_); }

  size_t save() {
    wanted_.push_back(true);
    return wanted_.size() - 1;
  }

  // Nobody will ask for it any more.
  void forget(size_t number) {
    wanted_[number] = false;
    if (number < noted_.size()) noted_[number].reset();
  }

  void note(const at::Tensor& tensor) {
    const size_t number = noted_.size();
    noted_.push_back(number < wanted_.size() && wanted_[number] ? tensor : at::Tensor());
    if (noted_.size() >= wanted_.size()) throw Noted();
  }

  at::Tensor take(size_t number) {
    if (!ran_) run();
    return std::exchange(noted_.at(number), at::Tensor());
  }

 private:
  void run() {
    ran_ = true;
    auto now = draws(cuda_);
    for (auto& then : draws_) then.restore();
    Frame* const outer = std::exchange(noting, this);
    const auto outside = std::exchange(saving, nullptr);
    {
      const at::AutoGradMode record(true);
      again_(context_);
    }
    noting = outer;
    saving = outside;
    for (auto& state : now) state.restore();
    // An error of the segment is stored where failures of the shim are.
    if (noted_.size() != wanted_.size()) throw std::runtime_error(perf4sight::problem);
  }

  Again again_;
  Drop drop_;
  void* context_;
  bool cuda_;
  std::vector<Draws> draws_;
  std::vector<bool> wanted_;
  std::vector<at::Tensor> noted_;
  bool ran_ = false;
};

class Saved final : public SavedVariableHooks {
 public:
  explicit Saved(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  ~Saved() override { frame_->forget(number_); }
  void call_pack_hook(const at::Tensor&) override { number_ = frame_->save(); }
  at::Tensor call_unpack_hook() override { return frame_->take(number_); }

 private:
  std::shared_ptr<Frame> frame_;
  size_t number_ = 0;
};

// For the second graph, which is not differentiated.
class Noting final : public SavedVariableHooks {
 public:
  explicit Noting(Frame& frame) : frame_(frame) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    tensor_ = tensor.requires_grad() ? tensor.detach() : tensor;
    frame_.note(tensor_);
  }
  at::Tensor call_unpack_hook() override { return tensor_; }

 private:
  Frame& frame_;
  at::Tensor tensor_;
};

class Checkpointing final : public Engine {
 public:
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    if (noting) return std::make_unique<Noting>(*noting);
    if (saving) return std::make_unique<Saved>(saving);
    return nullptr;
  }
};

Engine& engine() {
  static Checkpointing engine;
  return engine;
}

}  // namespace

extern "C" {

// From here on autograd saves nothing on this thread but a way to run `again`; `context` is dropped with the last
// tensor that needs it.
bool p4s_checkpoint_begin(Again again, Drop drop, void* context, bool cuda) {
  return attempt([&] {
    torch::autograd::set_default_engine_stub(engine);
    saving = std::make_shared<Frame>(again, drop, context, cuda);
  });
}

void p4s_checkpoint_end() { saving.reset(); }

// Why a segment that runs again fails.
void p4s_checkpoint_failed(const char* problem) { perf4sight::problem = problem; }
}
