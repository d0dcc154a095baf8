"""Rematerialization: `checkpoint`, its policies, and the memory that a program will need."""
