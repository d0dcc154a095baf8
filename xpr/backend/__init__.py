"""The machine: StableHLO text, compiling and running through jaxlib, devices and arrays. It knows avals, not tracing."""
