"""The compiler from a graph to the command list that a replay submits."""
