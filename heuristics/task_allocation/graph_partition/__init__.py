"""Graph partitioners as placement engines: the weighted graph they see, METIS, mt-KaHyPar."""
