"""Networks: topologies and their faults, cost and power, reliability, cabling, locality, and the wide area."""
