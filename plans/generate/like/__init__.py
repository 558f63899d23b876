"""Fleets drawn after a given one.

Every drawn topology follows one of the given ones. Its repeated patterns are repeated more or less often, as
WfCommons does it with workflows: T. Coleman, H. Casanova, R. Ferreira da Silva, "Automated generation of
scientific workflow generators with WfChef", Future Generation Computer Systems 147 (2023). `find_segments`
finds what may be repeated or left out, `draw_like` draws, `fidelity` compares the result with what was given.
"""
