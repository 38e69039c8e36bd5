"""A Flink cluster on one machine, out of packages of PyPI, to carry plans out on."""
