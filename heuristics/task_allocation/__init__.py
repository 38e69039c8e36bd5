"""Task allocation by intermodule communication: groups, compiled algorithms, relaxations."""
