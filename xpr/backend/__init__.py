"""The runtime: StableHLO text, compilation and execution through jaxlib, devices, arrays. Avals, but no tracing."""
