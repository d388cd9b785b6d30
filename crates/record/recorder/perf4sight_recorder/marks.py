"""What marks iterations in a script that says nothing of it."""

import threading

BATCHES, STEPS, CALLS = range(3)
"""Batches of a DataLoader, steps of an optimizer, calls of a `Profiler`: once a later one occurs, earlier ones do not count."""

NAMES = {BATCHES: "DataLoader batches", STEPS: "optimizer steps", CALLS: "Profiler calls"}

PATIENCE = 3
"""So often another optimizer steps, while the one that marks iterations does not, before it takes its place."""


class Marks(object):
    """Which marks count. Of several optimizers, as a generator and a discriminator have, the one that steps least often marks iterations."""

    def __init__(self):
        self.take(None, None)

    def take(self, kind, which, each=1):
        """From now on these marks count; in each iteration another optimizer makes so many steps."""
        self.kind = kind
        self.which = which
        self.each = each
        self.thread = threading.get_ident()
        # How often each other optimizer stepped since the last mark.
        self.others = {}
        # How many marks came between each other optimizer's last two steps, none where it made one alone, and how many since.
        self.marks = {}

    def name(self):
        """What the marks are, in words."""
        return NAMES[self.kind] + (", %d of another optimizer in each" % self.each if self.each > 1 else "")

    def add(self, kind, which=None):
        """Whether this one counts, and whether it is the first of those that count from now on."""
        if self.kind is not None and kind < self.kind:
            return False, False
        if (self.kind, self.which) == (kind, which):
            self.others = {}
            for marks in self.marks.values():
                marks[-1] += 1
            return True, False
        each = 1
        if self.kind == kind:
            self.others[which] = self.others.get(which, 0) + 1
            each = self.marks_for_each(which)
            if each <= 1 and self.others[which] < PATIENCE * self.each:
                return False, False
        self.take(kind, which, max(each, 1))
        return True, True

    def marks_for_each(self, which):
        """How many marks come with each step of another optimizer of the same thread, if they were as many two times; else 0."""
        if threading.get_ident() != self.thread:
            return 0
        # Marks before its first step do not count.
        before, since = self.marks.get(which, (None, None))
        self.marks[which] = [since, 0]
        return since if since == before and since is not None else 0


def is_loader_worker():
    """Whether this process is a DataLoader's, which has no iterations."""
    from torch.utils.data import get_worker_info

    return get_worker_info() is not None
