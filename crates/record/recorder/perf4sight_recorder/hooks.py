"""The events of PyTorch that are hooked: the end of an optimizer's step, the beginning of a DataLoader's next batch, profilers of the script's own."""

import functools
import sys


def install(recorder):
    """Notifies the recorder of steps and batches; `torch` has just been imported."""
    recorder.torch_is_here([hook_optimizers(recorder.stepped), hook_loaders(recorder.fetched)])
    hook_profilers(recorder.another_profiler)


def hook_optimizers(stepped):
    """Calls `stepped(optimizer)` after each step of any optimizer; gives the name of what was hooked."""
    import torch
    from torch.optim import optimizer

    if hasattr(optimizer, "register_optimizer_step_post_hook"):
        # Where a whole step is compiled, the hook is left as it is.
        as_it_is = getattr(torch, "_disable_dynamo", lambda function: function)
        optimizer.register_optimizer_step_post_hook(as_it_is(lambda optimizer, args, kwargs: stepped(optimizer)))
        return "torch.optim.optimizer.register_optimizer_step_post_hook"
    wrap_optimizers(optimizer.Optimizer, stepped)
    return "torch.optim.Optimizer.step"


def wrap_optimizers(base, stepped):
    """The same before PyTorch 2.0: each class of optimizers gets a step that notifies, when the first of it is made."""
    make = base.__init__

    @functools.wraps(make)
    def __init__(self, *args, **kwargs):
        make(self, *args, **kwargs)
        wrap_step(type(self), stepped)

    base.__init__ = __init__


def wrap_step(kind, stepped):
    step = kind.step
    if getattr(step, "notifies_perf4sight", False):
        return

    @functools.wraps(step)
    def notifying(self, *args, **kwargs):
        # A step may call the one of its base class, which notifies too: only the outermost ends an iteration.
        outermost = not getattr(self, "_perf4sight_steps", False)
        self._perf4sight_steps = True
        try:
            result = step(self, *args, **kwargs)
        finally:
            if outermost:
                self._perf4sight_steps = False
        if outermost:
            stepped(self)
        return result

    notifying.notifies_perf4sight = True
    kind.step = notifying


def hook_loaders(fetched):
    """Calls `fetched(batches)` before each batch of any DataLoader whose workers get so many batches ahead; gives the name of what was hooked."""
    from torch.utils.data import dataloader

    kind = dataloader._BaseDataLoaderIter
    fetch = kind.__next__

    @functools.wraps(fetch)
    def __next__(self):
        # Others' loaders may have neither, or none.
        fetched((getattr(self, "_num_workers", 0) or 0) * (getattr(self, "_prefetch_factor", 0) or 0))
        return fetch(self)

    kind.__next__ = __next__
    return "torch.utils.data.dataloader._BaseDataLoaderIter.__next__"


STARTS, ENDS = ("_prepare_profiler", "_enable_profiler", "_enable_profiler_legacy"), ("_disable_profiler", "_disable_profiler_legacy")
"""What all profilers of PyTorch call, of which only one can run."""


def hook_profilers(another):
    """Calls `another(True)` before any profiler starts, and `another(False)` after it has stopped."""
    import torch.autograd.profiler

    names = ("torch.autograd", "torch.autograd.profiler", "torch.autograd.profiler_legacy")
    modules = [sys.modules[name] for name in names if name in sys.modules]
    for name in STARTS + ENDS:
        call = getattr(torch.autograd, name, None)
        if call is not None:
            notifying = wrap_profiler(call, another, name in STARTS)
            for module in modules:
                if getattr(module, name, None) is call:
                    setattr(module, name, notifying)


def wrap_profiler(call, another, starts):
    @functools.wraps(call)
    def notifying(*args, **kwargs):
        if starts:
            another(True)
        runs = False
        try:
            result = call(*args, **kwargs)
            runs = starts
        finally:
            another(runs)
        return result

    return notifying
