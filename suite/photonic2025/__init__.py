"""photonic2025: "Photonic Rails in ML Datacenters".

parallelism_rules: Table 1 and 2. trace: the measured windows and their replay. windows: what counts as a window.
run: the measured run, computed. window_claims: section 3. reconfiguration: Fig. 8. fabric_cost: Fig. 7 and Table 3.
"""
