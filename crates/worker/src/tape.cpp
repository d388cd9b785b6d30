// Backward one operation at a time: the autograd graph of a step, cut at the results of the network's operations.
//
// libtorch's engine runs a graph to its leaves, and detached leaves at every cut would keep alive tensors that a plain
// step frees, and forbid in-place activations. So the graph stays whole and is walked here in the order of the engine
// on one thread: an operation's functions run in that order (latest first, gradients of weights at once) on the
// incoming gradients, and the gradients of the operation's inputs are stored until they are read.
#include <cstdint>
#include <memory>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include "attempt.h"

namespace {

using perf4sight::attempt;
using torch::autograd::Edge;
using torch::autograd::Node;
using torch::autograd::variable_list;

struct LatestFirst {
  bool operator()(const Node* a, const Node* b) const {
    return a->sequence_nr() != b->sequence_nr() ? a->sequence_nr() > b->sequence_nr() : a < b;
  }
};

// As torch/csrc/autograd/input_buffer.cpp: in place where the sum has no other holder.
void accumulate(at::Tensor& sum, at::Tensor gradient) {
  const bool own = sum.is_non_overlapping_and_dense() && sum.use_count() == 1 && sum.has_storage() &&
                   sum.storage().use_count() == 1;
  if (own) {
    sum.add_(gradient);
  } else {
    sum = sum.add(gradient);
  }
}

class Tape {
 public:
  void record(const at::Tensor& result) {
    const Edge edge = torch::autograd::impl::gradient_edge(result);
    // A result without gradient, or one that passes its input through, has nothing of its own to differentiate.
    const bool own = edge.is_valid() && operations_.insert(edge.function.get()).second;
    results_.push_back(own ? edge : Edge());
    last_ = edge;
  }

  void begin(const at::Tensor& gradient) { deliver(last_, gradient); }

  void differentiate(size_t operation) {
    const at::AutoGradMode no_second_derivatives(false);
    const Edge& result = results_.at(operation);
    std::set<Node*, LatestFirst> ready;
    if (result.is_valid() && waiting_.count(result.function.get()) != 0) ready.insert(result.function.get());
    while (!ready.empty()) {
      Node* function = *ready.begin();
      ready.erase(ready.begin());
      variable_list gradients = run(*function);
      for (size_t i = 0; i < gradients.size(); i++) {
        const Edge& next = function->next_edge(i);
        if (!next.is_valid() || !gradients[i].defined()) continue;
        deliver(next, std::move(gradients[i]));
        if (operations_.count(next.function.get()) == 0) ready.insert(next.function.get());
      }
    }
  }

 private:
  void deliver(const Edge& edge, at::Tensor gradient) {
    waiting_[edge.function.get()].emplace_back(edge.input_nr, std::move(gradient));
  }

  // Gradients that met at a fork are added here, so that it costs time where the fork is.
  variable_list run(Node& function) {
    const auto found = waiting_.find(&function);
    auto waiting = std::move(found->second);
    waiting_.erase(found);
    variable_list inputs(function.num_inputs());
    for (auto& [index, gradient] : waiting) {
      at::Tensor& sum = inputs.at(index);
      if (sum.defined()) {
        accumulate(sum, std::move(gradient));
      } else {
        sum = std::move(gradient);
      }
    }
    waiting.clear();
    variable_list gradients = function(std::move(inputs));
    // Sums gradients of broadcast tensors, such as a linear layer's bias.
    torch::autograd::validate_outputs(function.next_edges(), gradients, [](const std::string& why) { return why; });
    function.release_variables();
    return gradients;
  }

  // Results by operation keep their functions alive, and those the functions before them.
  std::vector<Edge> results_;
  Edge last_;
  std::unordered_set<Node*> operations_;
  std::unordered_map<Node*, std::vector<std::pair<uint32_t, at::Tensor>>> waiting_;
};

}  // namespace

extern "C" {

void* p4s_tape_new() { return new Tape; }

void p4s_tape_free(void* tape) { delete static_cast<Tape*>(tape); }

// The results of a step's operations, in the order they run; `result` is an at::Tensor.
bool p4s_tape_record(void* tape, const void* result) {
  return attempt([&] { static_cast<Tape*>(tape)->record(*static_cast<const at::Tensor*>(result)); });
}

// The gradient of the last recorded result.
bool p4s_tape_begin(void* tape, const void* gradient) {
  return attempt([&] { static_cast<Tape*>(tape)->begin(*static_cast<const at::Tensor*>(gradient)); });
}

// Differentiates the operation of that position among the recorded ones, on the gradients that have come in; call it from
// the last to the first.
bool p4s_tape_differentiate(void* tape, size_t operation) {
  return attempt([&] { static_cast<Tape*>(tape)->differentiate(operation); });
}

// Why the last call of this thread that returned false did so; of any file of the shim.
const char* p4s_problem() { return perf4sight::problem.c_str(); }
}
