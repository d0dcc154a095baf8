"""First-order primitives, one family a file, all rules of a primitive in one paragraph."""
