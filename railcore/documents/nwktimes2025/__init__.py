"""nwktimes2025: a network engineer's notes on AI fabrics.

primer: the networks of the primer on parallelism, run on emulated GPUs. primer_claims: its claims.
"""
