"""photonic2025: "Photonic Rails in ML Datacenters". parallelism_rules: Table 1 and 2."""
