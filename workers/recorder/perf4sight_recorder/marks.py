"""What marks iterations in a script that says nothing of it."""

BATCHES, STEPS, CALLS = range(3)
"""Batches of a DataLoader, steps of an optimizer, calls of a `Profiler`: where a later one is heard, earlier ones mean nothing."""

NAMES = {BATCHES: "DataLoader batches", STEPS: "optimizer steps", CALLS: "Profiler calls"}

PATIENCE = 3
"""So often another optimizer steps, while the one that marks iterations does not, before it takes its place."""


class Marks(object):
    """Which marks count. Of several optimizers, as a generator and a discriminator have, one marks iterations."""

    def __init__(self):
        self.kind = None
        self.which = None
        self.others = {}

    def heard(self, kind, which=None):
        """Whether this one counts, and whether it is the first of those that count from now on."""
        if self.kind is not None and kind < self.kind:
            return False, False
        if (self.kind, self.which) == (kind, which):
            self.others = {}
            return True, False
        if self.kind == kind:
            self.others[which] = self.others.get(which, 0) + 1
            if self.others[which] < PATIENCE:
                return False, False
        self.kind, self.which, self.others = kind, which, {}
        return True, True


def is_loader_worker():
    """Whether this process is a DataLoader's, which has no iterations."""
    from torch.utils.data import get_worker_info

    return get_worker_info() is not None
