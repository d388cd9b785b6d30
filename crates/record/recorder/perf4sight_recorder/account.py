"""The reports of a process about its recording: to `perf4sight record` while it runs, and in the file next to its trace."""

import itertools
import json
import os
import platform
import re
import sys
import threading
import time

SETTINGS = "PERF4SIGHT_RECORD"
"""The variable with the settings as JSON: iterations, warm_up, stacks, out (a folder), reports (a folder that is removed at the end)."""

FORMAT = 2
"""The version of the file next to a trace."""

ROOM = "room"
"""A file among the reports whose space is freed for the last report where a disk is full."""

SELDOM = 1.0
"""Seconds between two words on how many iterations are done: writing a file takes some ten microseconds."""


def boot():
    """What is the same in all processes since the system started, whose clock they share; None where nothing says it."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except (IOError, OSError):
        return None


class Account(object):
    """What is known of this process's recording; each word of it is in a file at once, for the process may be killed."""

    def __init__(self, settings):
        self.settings = settings
        self.words = {}
        self.reported_at = 0.0

    @staticmethod
    def of_process():
        return Account(json.loads(os.environ[SETTINGS]))

    def enter_process(self):
        """Of a fork's parent only what is true of both is kept."""
        self.words = dict((word, self.words[word]) for word in ("torch", "hooked") if word in self.words)

    def report(self, **words):
        """Adds words and writes all of them."""
        self.words.update(words)
        save(self.folder("%d.json" % os.getpid()), dict(self.words, **software()))
        self.reported_at = time.time()

    def report_progress(self, at_once, **words):
        """Adds words on how many iterations are done, and writes all if that was not done just now, or has to be."""
        self.words.update(words)
        if at_once or time.time() - self.reported_at > SELDOM:
            self.report()

    def claim(self, rank):
        """The rank of this process and the name of its files: the first rank that is left where it has none, and with the number of the
        process where another one has the same."""
        if rank is None:
            rank = next(rank for rank in itertools.count() if self.take("rank%d" % rank))
            return rank, "rank%d" % rank
        name = "rank%d" % rank
        return rank, name if self.take(name) else "%s-%d" % (name, os.getpid())

    def take(self, name):
        """Whether this process is the first that takes the name."""
        try:
            os.close(os.open(self.folder(name), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def make_room(self):
        """Where the disk is full, this leaves enough for the words that say so."""
        try:
            os.remove(self.folder(ROOM))
        except OSError:
            pass  # It was needed before, or the folder is gone.

    def wait_for_others(self, ranks, seconds):
        """Waits until so many processes, at most those that were started here, and all that are recorded, are at their end too, or there
        is no news of them for some time."""
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
        try:
            open(self.folder("%d.over" % os.getpid()), "w").close()
            while not self.are_over(ranks) and time.time() - self.news() < seconds:
                time.sleep(0.05)
        except OSError:
            pass  # The folder is gone, and with it whoever waits for this process.

    def are_over(self, ranks):
        names = os.listdir(self.settings["reports"])
        over = set(name[:-len(".over")] for name in names if name.endswith(".over"))
        others = (name[:-len(".json")] for name in names if re.match(r"\d+\.json$", name))
        return len(over) >= ranks and not any(self.is_recorded(process) for process in others if process not in over)

    def is_recorded(self, process):
        """Whether a process has iterations and still runs."""
        try:
            with open(self.folder(process + ".json")) as report, open("/proc/%s/stat" % process) as state:
                return "iterations_are" in json.load(report) and state.read().rpartition(")")[2].split()[0] not in "ZX"
        except (OSError, ValueError):
            return False

    def news(self):
        """When anything was reported last."""
        folder = self.settings["reports"]
        return max(os.stat(os.path.join(folder, name)).st_mtime for name in os.listdir(folder))

    def path(self, name):
        """A file among what is recorded."""
        return os.path.join(self.settings["out"], name)

    def folder(self, name):
        """A file that `perf4sight record` reads, and that goes when it ends."""
        return os.path.join(self.settings["reports"], name)


def software():
    """What runs the script."""
    return {"python": platform.python_version(), "executable": sys.executable}


def save(path, words):
    """Writes JSON so that whoever reads finds all of it or nothing."""
    unfinished = "%s.%d.%d.new" % (path, os.getpid(), threading.get_ident())
    with open(unfinished, "w") as file:
        json.dump(words, file)
    os.replace(unfinished, path)
