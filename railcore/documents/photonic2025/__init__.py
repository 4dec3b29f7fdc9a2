"""Ouyang, Ding, Singh: "Photonic Rails in ML Datacenters", 2025. parallelism_rules: Table 1 and 2."""
