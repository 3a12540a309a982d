"""The exception tree: what a caller may catch.

Each of these is the user's to mend, so its message is one line that names the setting or the file,
the value found, the rule, and what to do. Our own mistakes are assertions.
"""


class TransduceError(Exception):
    """Something the user can put right; the command line prints it as one line and exits with 2."""


class ConfigError(TransduceError):
    """A setting, a preset or a settings file is wrong."""


class InputError(TransduceError):
    """A file, a corpus, a vocabulary or a sequence is not what it must be."""
