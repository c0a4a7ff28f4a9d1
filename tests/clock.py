"""A clock for whoever takes one: it stands still until a test moves it."""


class Clock:
    """The time `now`, in seconds."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
