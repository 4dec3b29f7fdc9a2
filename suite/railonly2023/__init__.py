"""railonly2023: "Optimized Network Architectures for Large Language Model Training with Billions of Parameters".

- table2: counts, cost and spare switches.
- two_stage_equations: Eq. (1) to (3) and Table 1.
- two_stage_figures: Fig. 5, 7, 8 and the introduction, by every reading; traffic of Fig. 3 and 4.
"""
