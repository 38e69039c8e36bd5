"""Task allocation (CIKM 2014): exact models for the traffic that stays inside nodes."""
