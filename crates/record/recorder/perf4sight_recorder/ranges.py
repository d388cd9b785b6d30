"""Ranges that the script has open when the profiler stops, which may end while it runs again."""

import contextlib
import gc
import sys


@contextlib.contextmanager
def interrupted():
    """Ends them, and begins them again once the profiler has stopped. PyTorch (1.13, 2.11) writes the end of a range into what recorded its beginning, if
    any profiler runs by then: into memory that is no longer its own, where that one has stopped."""
    ranges = open_ranges()
    for one in ranges:
        one.__exit__(None, None, None)
    try:
        yield
    finally:
        for one in reversed(ranges):
            one.__enter__()


def open_ranges():
    """Those that were entered, the last one that was made first. Ended ones are among them: to end once more does nothing, and what begins where no
    profiler runs is recorded by none. They are looked for where they are needed, because a hook for each would slow recorded iterations down."""
    from torch.autograd.profiler import record_function

    # From 3.8 on Python keeps the order in which objects were made, by age. A list of all would be in itself, and hold all until it is collected, such as a
    # DataLoader whose processes end with it. There is no call for each object: with stacks the profiler would record a quarter of a million.
    ages = [(0,), (1,), (2,)] if sys.version_info >= (3, 8) else [()]
    ranges = [one for age in ages for one in reversed(gc.get_objects(*age)) if type(one) is record_function]
    return [one for one in ranges if was_entered(one) and one.run_callbacks_on_exit]


def was_entered(one):
    """Whether what it keeps from its beginning to its end is there; before PyTorch 2.0 another tensor is there until then."""
    import torch

    kept = getattr(one, "record", None)
    return kept is not None or getattr(one, "handle", torch.zeros(0)).dtype == torch.uint8
