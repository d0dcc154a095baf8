"""Collectives: reductions over and exchanges along named axes."""
