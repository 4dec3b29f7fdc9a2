"""Wang, Ghobadi, Shakeri, Zhang, Hasani: "Optimized Network Architectures for Large Language Model Training", 2023.

table2: counts, cost and spare switches. two_stage_equations: Eq. (1) to (3) and Table 1. two_stage_figures: Fig. 5, 7, 8
and the introduction, by every reading. two_stage_traffic: Fig. 3 and 4.
"""
