"""nwktimes2025: a network engineer's notes on AI fabrics.

cluster: the cluster of Fig. 1-1 to 1-6. profiles: Fig. 13-13. cluster_claims: claims about both, contradictions.
"""
