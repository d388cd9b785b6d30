"""The calls of one thread, by Python's own `sys.setprofile`: what Kineto records of Python, for a PyTorch without it."""

import os
import sys
import time

# Python 3.6 has no time_ns(); there it is as exact as a float, a quarter of a microsecond.
clock = getattr(time, "time_ns", lambda: int(time.time() * 1e9))


class Calls(object):
    """Records calls from `start` to `stop`, which the same thread makes; of calls around them, the part in between."""

    def __init__(self):
        # By code, which is kept so that no other gets its place in memory, and by kind and name of what is built in.
        self.names = {}
        self.codes = []
        # Those that have not ended, outermost first: the name, the beginning, whether it is a function written in Python.
        self.open = []
        # Those that have: the name, the beginning and the end, in nanoseconds of the clock that PyTorch's profiler goes by.
        self.ended = []

    def start(self):
        """A script that has such a function of its own, as under `cProfile`, keeps it, and its calls are not recorded."""
        if sys.getprofile() is not None:
            return
        frame, codes = sys._getframe(1), []
        while frame is not None:
            codes.insert(0, frame.f_code)
            frame = frame.f_back
        now = clock()
        self.open = [(self.of_python(code), now, True) for code in codes]
        sys.setprofile(self.on_event)

    def stop(self):
        if sys.getprofile() == self.on_event:
            sys.setprofile(None)
        now = clock()
        self.ended += [(name, begin, now) for name, begin, _ in self.open]
        self.open = []

    def take(self):
        """The calls recorded until now; each is returned once."""
        ended, self.ended = self.ended, []
        return ended

    def on_event(self, frame, event, function):
        now = clock()
        if event == "call":
            self.open.append((self.of_python(frame.f_code), now, True))
        elif event == "c_call":
            self.open.append((self.built_in(function), now, False))
        else:
            self.end(now, event == "return")

    def end(self, now, of_python):
        """The innermost call ends, if it is of that kind: of what was called before all this began, an end may come alone."""
        if self.open and self.open[-1][2] == of_python:
            name, begin, _ = self.open.pop()
            self.ended.append((name, begin, now))

    def of_python(self, code):
        """`torch/nn/modules/linear.py(114): forward`"""
        if id(code) not in self.names:
            self.codes.append(code)
            self.names[id(code)] = "%s(%d): %s" % (shortened(code.co_filename), code.co_firstlineno, code.co_name)
        return self.names[id(code)]

    def built_in(self, function):
        """As it shows itself, without what it is bound to: that may be large, and has no part in what is called."""
        kind = type(getattr(function, "__self__", None))
        key = kind, function.__name__
        if key not in self.names:
            bound = kind not in (type(None), type(sys))
            self.names[key] = "<built-in %s>" % ("method %s of %s object" % (key[1], full_name(kind)) if bound else "function " + key[1])
        return self.names[key]


def full_name(kind):
    return kind.__name__ if kind.__module__ == "builtins" else "%s.%s" % (kind.__module__, kind.__name__)


def shortened(path):
    """A file below the longest of the folders that modules are looked for in."""
    folders = (os.path.join(os.path.abspath(folder), "") for folder in sys.path)
    return path[max((len(folder) for folder in folders if path.startswith(folder)), default=0):]
