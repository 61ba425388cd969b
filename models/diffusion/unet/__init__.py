"""UNets, whose convolutions see each other's maps across a bend."""
