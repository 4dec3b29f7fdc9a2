"""nwktimes2025: a network engineer's notes on AI fabrics.

rail_designs: the designs of Fig. 13-4 to 13-12 as fabrics with addresses. rail_claims: their claims.
"""
