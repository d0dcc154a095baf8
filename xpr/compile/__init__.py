"""From jaxprs to running programs: the order of equations, fusion barriers, lowering to StableHLO, evaluation."""
