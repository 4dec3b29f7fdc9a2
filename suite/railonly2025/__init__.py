"""railonly2025: "Rail-only: A Low-Cost High-Performance Network for Training LLMs With Trillion Parameters".

- table1: counts, cost and power (Fig. 1, Table 1, text).
- dense_traffic: Fig. 3 and the hierarchical AllGather.
- moe: Fig. 4 and the slowdown of rail-only for a mixture of experts.
- pipeline: Fig. 6.
- iteration_claims: Fig. 7 and 8, and days of training.
"""
