"""Running systems and their files: importers, exporters, verifying, carrying out."""
