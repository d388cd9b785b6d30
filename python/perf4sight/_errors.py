"""What the functions of this package raise."""


class Error(Exception):
    """What was asked cannot be answered: what is wrong, what was expected, what to do."""


class NetworkError(Error):
    """A module that cannot be read as one network, or that does not run on its inputs.

    `layer` is the part of the module that it is in, where that is known; `expected` the line that ends the message.
    """

    def __init__(self, message: str, layer: str = "", expected: str = "") -> None:
        super().__init__(message)
        self.layer = layer
        self.expected = expected

    def __str__(self) -> str:
        return "%s%s" % (self.args[0], self.expected)


class ProgramError(Error):
    """What the program `perf4sight` says against what it was asked.

    `code` is its exit code: 2 and 3 for what was asked wrongly, 4 for a file that cannot be used, 5 for a device that cannot do it, 6 for
    what cannot be read or written.
    """

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code
