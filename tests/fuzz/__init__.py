"""Random small instances, judged by a referee and a brute force of their own.

Everything here is written from ``docs/format.md`` and the design alone: what an instance means
(`reading`), its quantities (`figures`), its rules (`rules`, `dealing`) and all placements there are
(`brute`). Of the product only what `tests.fuzz.product` imports is used: reading an instance,
`solve`, `evaluate`, and the names of the methods.

``python -m tests.fuzz --seed 1 --seconds 600`` runs it, ``make fuzz`` does so at night, and
``tests/fuzz/test_fuzz.py`` runs a fixed part of it with the other tests.
"""
