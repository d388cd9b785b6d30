// Failures of a call of the shim: it returns false, and the reason is stored for the next query on the same thread.
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
