"""Verdicts: whether a cluster runs as planned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pydantic.dataclasses
from pydantic import ConfigDict, Field, computed_field

from streamplace.present.streams import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

FAR = 0.05
"""Difference of the measured share from the predicted one that is worth a note."""

PRINTED = ConfigDict(extra="forbid", strict=True, json_schema_serialization_defaults_required=True)
"""Of types that are printed as JSON, and whose schema is published."""


@pydantic.dataclasses.dataclass(frozen=True, config=PRINTED)
class Verdict(ABC):
    """Whether a cluster runs as planned."""

    planned: int = Field(description="number of subtasks, partitions or executors planned")
    as_planned: int = Field(description="those of them that are as planned")

    @computed_field(description="whether all is as planned")  # type: ignore[prop-decorator]
    @property
    def holds(self) -> bool:
        """Whether all is as planned."""
        return self.as_planned == self.planned

    @abstractmethod
    def lines(self) -> Iterator[str]:
        """Yield what is reported, a line each."""

    def text(self) -> str:
        """Return it in lines."""
        return "".join(f"{printable(line)}\n" for line in self.lines())

    def to_dict(self) -> dict[str, Any]:
        """Return it as ``--json`` prints it."""
        return {"holds": self.holds, **asdict(self)}


def share_lines(predicted: float | None, measured: float | None, far: str) -> Iterator[str]:
    """Yield what crosses nodes, by the plan and measured, where both are known.

    `far`: what may be why they are far apart.
    """
    if predicted is not None and measured is not None:
        remark = f" ({far})" if abs(predicted - measured) > FAR else ""
        yield f"remote share {measured:.3f} measured, {predicted:.3f} predicted{remark}"
