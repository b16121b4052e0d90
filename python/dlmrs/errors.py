"""The exceptions: one hierarchy under :class:`Error`, each also of the built-in kind that fits it.

The extension module raises them; each kind of error in the Rust library has one class here.
"""


class Error(Exception):
    """Anything that dlmrs itself raises."""


class NotFoundError(Error, FileNotFoundError):
    """A file, a folder or a bundled model that is needed is not there."""


class IoError(Error, OSError):
    """The operating system refused to read a file."""


class CheckpointError(Error, ValueError):
    """A file of a checkpoint is malformed, incomplete or contradicts another one."""


class UnsupportedModelError(Error, ValueError):
    """The checkpoint is of a family that this engine does not know."""


class InputError(Error, ValueError):
    """An argument, a prompt or a setting is out of its range or of the wrong type."""


class CapacityError(Error, MemoryError):
    """A cache or a buffer would become larger than it may."""


class TokenizerError(Error, ValueError):
    """The tokenizer's files are malformed, a text cannot be encoded, or there is no tokenizer."""


class TemplateError(Error, ValueError):
    """The chat template is malformed, or raised an error (often: a role or an order that it does not allow)."""


class DeviceError(Error, RuntimeError):
    """A device does not exist, was not built in, or refused an operation."""


class NotFiniteError(Error, ValueError):
    """A weight or an arithmetic result is NaN or infinite."""


class ClosedError(Error, RuntimeError):
    """The LLM cannot be used any more: it was closed, or this process is a fork of the one that loaded it."""
