"""Where datacenters find power: a grid, what plants nearby offer, nodes, candidates, splits, and what they cost."""
