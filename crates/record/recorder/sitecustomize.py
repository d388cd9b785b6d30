"""What `perf4sight record` has every Python of a command run before the script: it waits for PyTorch, then for iterations.

Written for Python 3.6 and PyTorch 1.8 on. Nothing here may stop a script: errors are reported to `perf4sight record`, which
started the command and reads it.
"""

import importlib.machinery
import importlib.util
import os
import sys

from perf4sight_recorder import hooks, recorder


class TorchWatcher(object):
    """Finds modules as the others do, and has the hooks installed when `torch` has been imported."""

    def __init__(self, recorder):
        self.recorder = recorder
        self.asking = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.asking:
            return None
        self.asking = True
        try:
            spec = importlib.util.find_spec("torch")
        finally:
            self.asking = False
        if spec is None or spec.loader is None:
            self.recorder.account.report(torch="missing")
            return None
        try:
            then(spec.loader, self.imported)
        except AttributeError as problem:
            self.recorder.give_up("PyTorch is imported in an unknown way", problem)
        return spec

    def imported(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        try:
            hooks.install(self.recorder)
        except Exception as problem:
            self.recorder.give_up("the hooks cannot be installed", problem)


def then(loader, call):
    """Calls `call` when the loader has run its module, and leaves the loader as it was."""
    run = loader.exec_module

    def exec_module(module):
        del loader.exec_module
        run(module)
        call()

    loader.exec_module = exec_module


def offer_profiler():
    """Lets scripts import `perf4sight` where it is not installed, after everything else that there is."""
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "last"))


def chain():
    """Runs the sitecustomize that this one stands before, under its name."""
    here = os.path.dirname(os.path.abspath(__file__))
    others = [folder for folder in sys.path if os.path.abspath(folder) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


offer_profiler()
if recorder.current() is not None:
    # PyTorch's profiler would write lines of its own between the script's: since 2.15 whenever it starts and stops.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    try:
        recorder.current().account.report()  # Where nothing imports PyTorch, this reports which Python it was.
    except OSError:
        pass  # It fails again, and is reported then, once there is something to record.
    watcher = TorchWatcher(recorder.current())
    if "torch" in sys.modules:
        # A .pth file imported it, which is read before this.
        watcher.imported()
    else:
        sys.meta_path.insert(0, watcher)
chain()
