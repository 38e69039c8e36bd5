"""What the papers claim, as data: each claim a predicate that is computed from a stored table.

A paper's folder has

- ``claims.toml``: of each claim the paper's words in ours, set-up and predicate in words; the SQL,
  the text and the verdict rule that judge it from stored tables (`claims.claim`);
- ``tables/``: what they are judged from, each with a record of how it was made (`store_table`);
- ``tables.toml``: by the name of a table how it is made (`claims.tables`), for
  ``streamplace paper --tables PAPER/TABLE``; figures that were collected have tables, too, under
  their own names (``fig-4a``);
- ``verdicts.csv``: written by ``streamplace paper --claims --write``, compared by ``--check``.

No figure and no verdict is typed. ``python -m experiments.studies.papers.pages PAPER`` writes
the page.
"""

from experiments.studies.papers.claims.claim import Claim, Finding, Verdict, read_claims, verdict_of
from experiments.studies.papers.claims.tables import About, about_table, load_table, store_table

__all__ = [
    "About",
    "Claim",
    "Finding",
    "Verdict",
    "about_table",
    "load_table",
    "read_claims",
    "store_table",
    "verdict_of",
]
