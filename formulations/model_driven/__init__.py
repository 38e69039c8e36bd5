"""Model-driven scheduling (Shukla and Simmhan 2017): models, prediction, referee, exact packing."""
