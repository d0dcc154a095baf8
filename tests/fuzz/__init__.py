"""A fuzzer: random typed programs, each checked in many ways. `python -m tests.fuzz --help` says how to run it."""
