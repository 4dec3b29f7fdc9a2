"""Where datacenters find power: a grid, rules of what its plants offer, power nodes, and candidates for a place."""
