"""What computes in detail, for those who need it; the core does without.

A folder imports itself and those before it in this order: `deployment`, `transport`, `search`, `steps`, `photonics`,
`datacenter`, `degraded`, `siting`, `emulator`, `launch_lines`, `validation`, `own_runs`, `run_errors`, `plan`, `sweep`.
"""
