"""Storm's scheduling problem (Aniello et al. 2013), exactly."""
