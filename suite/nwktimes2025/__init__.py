"""nwktimes2025: a network engineer's notes on AI fabrics.

primer: the networks of the primer on parallelism, run on emulated GPUs. primer_claims: its claims.
cluster: the cluster of Fig. 1-1 to 1-6 and its claims. profiles: Fig. 13-13.
servers: the servers of Fig. 13-1 and 13-2, Ultra Ethernet's two nodes. server_claims: their claims, delays, memory.
rail_designs: the designs of Fig. 13-4 to 13-12 as fabrics with addresses. rail_claims: their claims.
"""
