"""`from perf4sight import Profiler`: says which part of a loop is an iteration, as published.

Under `perf4sight record` the calls mark iterations; anywhere else they do nothing, so that a script may keep them. Written for
Python 3.6 on. A script that is also run without `perf4sight record` needs this file next to it.
"""

try:
    from perf4sight_recorder import recorder as _recorder
except ImportError:
    _recorder = None


class Profiler(object):
    """Marks iterations. The arguments of the published class are taken and mean nothing: the command line says what is recorded."""

    def __init__(self, *args, **kwargs):
        self._recorder = _recorder.current() if _recorder is not None else None
        if self._recorder:
            self._recorder.announce_calls()

    def enable_profiling(self):
        """An iteration begins here."""
        if self._recorder:
            self._recorder.begin_call()

    def disable_profiling(self):
        """The iteration ends here. After the last one that is wanted, so does the script."""
        if self._recorder:
            self._recorder.end_call()
