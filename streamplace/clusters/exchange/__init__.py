"""What importers and exporters share: declarations, ledgers, sources, placements, documents."""
