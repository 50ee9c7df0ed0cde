"""What can be wrong with a sweep; told in one line, before any trial starts."""


class SweepError(ValueError):
    """A sweep that cannot start or go on as asked; nothing was overwritten."""
