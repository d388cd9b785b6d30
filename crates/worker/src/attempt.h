// How a call of the shim fails: it returns false, and the reason waits for whoever asks on the same thread.
#pragma once

#include <exception>
#include <string>

namespace perf4sight {

inline thread_local std::string problem;

// C++ exceptions end here: Rust cannot unwind them.
template <typename Action>
bool attempt(Action action) {
  try {
    action();
    return true;
  } catch (const std::exception& error) {
    problem = error.what();
  } catch (...) {
    problem = "unknown failure";
  }
  return false;
}

}  // namespace perf4sight
