"""Reports of sweeps: SQL over the rows by DuckDB, tables and figures, one self-contained page.

`database` reads the rows of a result folder, names contestants and cases, and defines the SQL
tables that the questions of ``questions.sql`` are asked of. `findings` stops on contradictions and
holds the answers. `tables` and `figures` make tables and figures of them, `build` lays these out
and writes them. Columns are explained in ``docs/reports.md``.
"""
