"""Signals that end a script wait until what was recorded is written: they would throw it away."""

import contextlib
import os
import signal
import threading

LATE = (signal.SIGINT, signal.SIGTERM)
"""Those of Ctrl-C, of `kill`, and of whoever ends jobs."""


@contextlib.contextmanager
def signals():
    """Has signals that come in the main thread meanwhile come afterwards; those that the script ignores are ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came, handlers = [], {}
    try:
        for number in LATE:
            handler = signal.getsignal(number)
            if handler not in (None, signal.SIG_IGN):
                handlers[number] = handler
                signal.signal(number, lambda number, frame: came.append(number))
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for number in came[:1]:
            os.kill(os.getpid(), number)
