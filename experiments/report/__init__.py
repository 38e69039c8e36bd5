"""Reports of sweeps: SQL over the rows by DuckDB, tables and figures, one self-contained page.

`database` reads the rows of a result folder and names contestants and cases, `queries` defines the
SQL tables and holds every question, `findings` stops on contradictions and holds the answers.
`tables`, `pairs`, `figures` and `reasons` make tables and figures of them, `build` lays these out,
`pages` writes them. Columns are explained in ``docs/reports.md``.
"""
