"""ZeroTune's measured Flink placements

Agnihotri, Koldehofe, Stiegele, Heinrich, Binnig, Luthra, "ZEROTUNE: Learned Zero-Shot Cost Models
for Parallelism Tuning in Stream Processing", ICDE 2024. The authors published the query graphs they
measured: what each parallel instance sent and received, and the host it ran on. Their paper is
about the degree of parallelism; where instances go was left to Flink. Here 46 of these placements
are imported with `streamplace import zerotune` ([how](../import-export.md#zerotune)) and planned
again.

The graphs are not part of this repository: `STREAMPLACE_ZEROTUNE` names the folder that holds them
(`*.graph` or `*.graph.gz`, in folders below it too).
"""
