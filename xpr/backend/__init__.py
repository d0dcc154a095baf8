"""The machine: StableHLO text, compiling and running through jaxlib, devices, arrays. It knows avals, not tracing."""
