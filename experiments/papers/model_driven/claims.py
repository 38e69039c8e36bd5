"""Who judges the paper's claims, and from which stored tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.papers.claims import read_claims

if TYPE_CHECKING:
    from experiments.papers.claims import Judged

JUDGES: dict[str, Judged] = {}

CLAIMS = read_claims(Path(__file__).with_name("claims.toml"), JUDGES)
