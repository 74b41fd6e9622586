"""Every operator that torch runs, shown to a counter with its arguments and its results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode


class WatchedOperators(TorchDispatchMode, ABC):
    """Runs each operator unchanged and lets the subclass look at it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch annotates half of it

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the operator, then look at it."""
        results = func(*args, **(kwargs or {}))
        self.look(func, args, results)
        return results

    @abstractmethod
    def look(self, operator: Any, args: Sequence[Any], results: Any) -> None:
        """Note what there is to count in an operator that has run."""
