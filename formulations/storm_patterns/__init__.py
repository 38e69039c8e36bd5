"""Storm's exact placement by node patterns: what a node holds of each class of equal executors.

A pattern is a vector of counts with a number of workers for each topology. All patterns are listed
(`states`), priced against the duals of a linear master (`master`), and those that an optimal
placement may use go into a small integer model (`closing`); the best split of a pattern's executors
into its workers (`splitting`) is the value of the second level.
"""
