"""Nexmark: persons, auctions and bids of an online auction, made inside the subtasks."""
