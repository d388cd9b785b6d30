"""What marks iterations in a script that says nothing of it."""

import sys
import threading
import weakref

BATCHES, STEPS, CALLS = range(3)
"""Batches of a DataLoader, steps of an optimizer, calls of a `Profiler`: once a later one occurs, earlier ones do not count."""

NAMES = {BATCHES: "DataLoader batches", STEPS: "optimizer steps", CALLS: "Profiler calls"}

IGNORED, ANEW, RESUMES, COUNTS = range(4)
"""What a mark is: none; the first of those that count from now on, where earlier ones meant something else; the first that counts after some that did
not, so that no iteration ends there; or where an iteration ends and the next one begins."""

PATIENCE = 3
"""So often another optimizer steps, while the one that marks iterations does not, before it takes its place."""

CHECKED = 3
"""The first iterations by an optimizer that steps after a fixed number of steps of another have that number, or it was chance."""


class Marks(object):
    """Which marks count. Of several optimizers, as a generator and a discriminator have, the one that steps least often marks iterations. Optimizers
    that step in no order mark them all."""

    def __init__(self):
        self.any = False
        self.which = None
        self.take(None, None)

    def take(self, kind, one, each=1):
        """From now on these marks count; in each iteration another optimizer makes so many steps."""
        self.kind = kind
        self.former = self.which
        self.which = id(one)
        self.alive = reference(one)
        self.each = each
        self.thread = threading.get_ident()
        # How often each other optimizer stepped since the last mark.
        self.others = {}
        # How many marks came between each other optimizer's last two steps, none where it made one alone, and how many since.
        self.marks = {}
        # How many iterations there were, and how many steps of others at least and at most in one.
        self.iterations = 0
        self.least = self.most = each

    def name(self):
        """What the marks are, in words."""
        if self.any:
            return "steps of several optimizers"
        if self.most <= 1:
            return NAMES[self.kind]
        number = "%d" % self.most if self.least == self.most else "%d to %d" % (self.least, self.most)
        return "%s, %s of another optimizer in each" % (NAMES[self.kind], number)

    def add(self, kind, one=None):
        """What this one is."""
        if self.kind is not None and kind < self.kind:
            return IGNORED
        if self.kind != kind:
            return self.anew(kind, one)
        if self.any or self.which == id(one):
            return self.goes_on(kind, one)
        which = id(one)
        self.others[which] = self.others.get(which, 0) + 1
        each = self.marks_for_each(which)
        if each > 1:
            return self.anew(kind, one, each)
        if self.replaced():
            self.take(kind, one)
            return COUNTS
        if self.others[which] < PATIENCE * self.each:
            return IGNORED
        return self.takes_over(kind, one)

    def anew(self, kind, one, each=1):
        self.take(kind, one, each)
        self.any = False
        return ANEW

    def goes_on(self, kind, one):
        """A mark like the one before."""
        if not self.any:
            steps = sum(self.others.values())
            if self.each > 1 and self.iterations < CHECKED and steps != self.each:
                return self.all_count(kind, one)
            self.count(steps)
        self.others = {}
        for marks in self.marks.values():
            marks[-1] += 1
        return COUNTS

    def count(self, steps):
        """An iteration had so many steps of others."""
        first = self.each == 1 and not self.iterations
        self.least, self.most = (steps, steps) if first else (min(self.least, steps), max(self.most, steps))
        self.iterations += 1

    def replaced(self):
        """Whether the optimizer that marks iterations is gone, as where each of several networks is trained with a new one. Only in the
        same thread is another one in its place. Of several ranks all have to record the same iterations, and memory may be freed later in one."""
        return self.alive() is None and threading.get_ident() == self.thread and not is_one_of_several()

    def takes_over(self, kind, one):
        """Another optimizer steps alone. Where that is the one that did before, they step in no order."""
        if threading.get_ident() != self.thread:
            return self.anew(kind, one)
        if self.former == id(one):
            return self.all_count(kind, one)
        self.take(kind, one)
        return RESUMES

    def all_count(self, kind, one):
        mark = self.anew(kind, one)
        self.any = True
        return mark

    def marks_for_each(self, which):
        """How many marks come with each step of another optimizer of the same thread, if they were as many two times; else 0."""
        if threading.get_ident() != self.thread:
            return 0
        # Marks before its first step do not count.
        before, since = self.marks.get(which, (None, None))
        self.marks[which] = [since, 0]
        return since if since == before and since is not None else 0


def is_one_of_several():
    """Whether this process is a rank of several."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and distributed.is_available() and distributed.is_initialized()


def reference(one):
    """Gives an object for as long as it is there, without keeping it."""
    try:
        return weakref.ref(one)
    except TypeError:
        return lambda: one  # Such as none.


def is_loader_worker():
    """Whether this process is a DataLoader's, which has no iterations."""
    from torch.utils.data import get_worker_info

    return get_worker_info() is not None
