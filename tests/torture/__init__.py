"""Faults on purpose: signals, full disks, odd paths, hostile files and servers (`make torture`)."""
