"""Higher-order primitives, whose rules transform jaxprs."""
