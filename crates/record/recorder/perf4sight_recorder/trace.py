"""What a profiler wrote each time it ran, put together as one trace."""

import gzip
import os

COMPRESSION = 5
"""gzip's default, 9, takes several times as long on these files and saves a few percent."""

BEGIN, BASE = b'"traceEvents": [', b'"baseTimeNanoseconds"'
"""In these lines of a trace its events begin, and stands what its times count from."""


OURS, STEP = "perf4sight iteration#", "ProfilerStep#"
"""What iterations are called while they are recorded, and in the trace, as PyTorch's schedules call them: a script's own schedule does so in
every iteration, whether its profiler runs or not."""


class Piece(object):
    """A trace as PyTorch exported it, and what else some of its events are to be called."""

    def __init__(self, path, renamed):
        self.path = path
        self.renamed = [('"%s"' % name, '"%s"' % other) for name, other in renamed.items()]
        self.renamed += [('"' + STEP, '"script ' + STEP), ('"' + OURS, '"' + STEP)]

    def remove(self):
        try:
            os.remove(self.path)
        except OSError:
            pass  # It was never written, or is gone with its folder.

    def lines(self):
        renamed = [(name.encode(), other.encode()) for name, other in self.renamed]
        with open(self.path, "rb") as file:
            for line in file:
                for name, other in renamed:
                    line = line.replace(name, other)
                yield line

    def check(self):
        """PyTorch says nothing where the disk was full."""
        with open(self.path, "rb") as file:
            file.seek(max(0, os.path.getsize(self.path) - 64))
            if file.read().rstrip()[-1:] not in (b"}", b"]"):
                raise OSError("the trace is cut off, as where a disk is full")


def write(pieces, path, unfinished):
    """Writes the events of all pieces as a compressed trace, under another name until it is whole; the pieces go."""
    for piece in pieces:
        piece.check()
    with gzip.open(unfinished, "wb", COMPRESSION) as target:
        target.writelines(pieces[0].lines() if len(pieces) == 1 else joined(pieces))
    for piece in pieces:
        piece.remove()
    os.replace(unfinished, path)


def joined(pieces):
    """The lines of the first, with the events of the others behind its own."""
    rest, bases, ends = [piece.lines() for piece in pieces], [], []
    for number, lines in enumerate(rest):
        for line in header(lines, bases):
            if number == 0:
                yield line
        if number > 0:
            yield b",\n"
        for line in events(lines, ends):
            yield line
    if len(set(bases)) > 1:
        raise ValueError("the times of this profiler do not count from the same moment each time it runs")
    yield ends[0]
    for line in rest[0]:
        yield line


def header(lines, bases):
    """The lines up to the one that events begin behind."""
    for line in lines:
        if BASE in line:
            bases.append(line)
        yield line
        if BEGIN in line:
            return
    raise ValueError("the trace has no events where they are looked for")


def events(lines, ends):
    """The lines of events; the one that ends their list is returned separately."""
    for line in lines:
        if line.lstrip().startswith(b"]"):
            ends.append(line)
            return
        yield line
    raise ValueError("the events of the trace have no end")
