"""Fleets drawn from a spec file in YAML.

The keys are those of NAMB's workflow schema: A. Pagliari, F. Huet, G. Urvoy-Keller, "NAMB: A quick and
flexible stream processing application prototype generator", CCGrid 2020; https://github.com/ale93p/namb.
"""
