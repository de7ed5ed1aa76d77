"""The newest few answers about things that never change: what a SHA names is the same for ever."""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Kept(Generic[K, V]):
    """At most `most` answers, the oldest goes first. An answer that was not given (an exception) is not kept."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._answers: dict[K, V] = {}

    def of(self, key: K, ask: Callable[[], V], keep: Callable[[V], bool] = lambda _: True) -> V:
        """The kept answer, else what `ask` says now. `keep`: whether that one may stay."""
        if key in self._answers:
            return self._answers[key]
        answer = ask()
        if keep(answer):
            while len(self._answers) >= self.most:
                del self._answers[next(iter(self._answers))]
            self._answers[key] = answer
        return answer
