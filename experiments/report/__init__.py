"""Reports of sweeps: SQL over the rows by DuckDB, tables and figures, one self-contained page.

The way through: `place` finds the result folder, `database` reads its rows, `labels` names
contestants and cases, `views` defines the SQL views, `grading` stops on contradictions, `queries`
holds every question asked, `opening`, `comparison`, `cases`, `chance` and `curves` answer them as
tables and figures (`document`), and `html`, `writing` and `terminal` write these down. What each
column means is told in ``docs/reports.md``.
"""
