"""From jaxprs to running programs: lowering to StableHLO, what is fused and in which order, evaluation."""
