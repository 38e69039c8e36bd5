"""Reports of sweeps: Spark SQL over the rows, tables and figures, one self-contained page.

The way through: `folder` opens the result folder, `labels` names contestants and cases, `views`
defines the SQL views, `grading` stops on contradictions, `queries` holds every question asked,
`opening`, `comparison` and `curves` answer them as tables and figures (`document`), and `html`,
`text` and `terminal` write these down. What each column means is told in ``docs/reports.md``.
"""
