"""Networks: topologies with their parts and faults, cost and power, reliability."""
