"""Where places for a datacenter are: areas, the best k places of a demand, and grid data of your own."""
