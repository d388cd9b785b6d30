"""What a process tells of its recording: to `perf4sight record` while it runs, and in the file beside its trace."""

import json
import os
import platform
import sys
import threading
import time

SETTINGS = "PERF4SIGHT_RECORD"
"""The variable with what is asked, as JSON: iterations, warm_up, stacks, out (a folder), told (a folder that goes at the end)."""

FORMAT = 1
"""The version of the file beside a trace."""

SELDOM = 1.0
"""Seconds between two words on how many iterations are done: writing a file takes some ten microseconds."""


class Account(object):
    """What is known of this process's recording; each word of it is in a file at once, for the process may be killed."""

    def __init__(self, settings):
        self.settings = settings
        self.words = {}
        self.told_at = 0.0

    @staticmethod
    def of_process():
        return Account(json.loads(os.environ[SETTINGS]))

    def tell(self, **words):
        """Adds words and writes all of them."""
        self.words.update(words)
        save(self.folder("%d.json" % os.getpid()), dict(self.words, **software()))
        self.told_at = time.time()

    def tell_progress(self, **words):
        """Adds words on how many iterations are done, and writes all if that was not done just now."""
        self.words.update(words)
        if time.time() - self.told_at > SELDOM:
            self.tell()

    def claim(self, rank):
        """The name of this process's files: that of its rank, with the process where another one has that rank too."""
        name = "rank%d" % rank
        try:
            os.close(os.open(self.folder(name), os.O_CREAT | os.O_EXCL))
        except OSError:
            name = "%s-%d" % (name, os.getpid())
        return name

    def wait_for_others(self, ranks, seconds):
        """Waits until so many processes, at most those that were started here, are at their end too."""
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", ranks))
        until = time.time() + seconds
        try:
            open(self.folder("%d.over" % os.getpid()), "w").close()
            while sum(name.endswith(".over") for name in os.listdir(self.settings["told"])) < ranks:
                if time.time() > until:
                    break
                time.sleep(0.05)
        except OSError:
            pass  # The folder is gone, and with it whoever waits for this process.

    def path(self, name):
        """A file among what is recorded."""
        return os.path.join(self.settings["out"], name)

    def folder(self, name):
        """A file that `perf4sight record` reads, and that goes when it ends."""
        return os.path.join(self.settings["told"], name)


def software():
    """What runs the script."""
    return {"python": platform.python_version(), "executable": sys.executable}


def save(path, words):
    """Writes JSON so that whoever reads finds all of it or nothing."""
    unfinished = "%s.%d.%d.new" % (path, os.getpid(), threading.get_ident())
    with open(unfinished, "w") as file:
        json.dump(words, file)
    os.replace(unfinished, path)
