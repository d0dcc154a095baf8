"""Jaxprs as text: the printer, and how literals, parameters and types are written so that they can be read back."""
