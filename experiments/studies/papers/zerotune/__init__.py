"""ZeroTune's measured Flink placements

Agnihotri, Koldehofe, Stiegele, Heinrich, Binnig, Luthra, "ZEROTUNE: Learned Zero-Shot Cost Models
for Parallelism Tuning in Stream Processing", ICDE 2024. The authors published their measured query
graphs: what each parallel instance sent and received, and its host. Their paper is
about parallelism; Flink placed the instances. Here 46 of these placements
are imported with `streamplace import zerotune` ([how](../import-export.md#zerotune)) and planned
again.

The graphs are not part of this repository: `STREAMPLACE_ZEROTUNE` names the folder that holds them
(`*.graph` or `*.graph.gz`, in folders below it too).
"""
