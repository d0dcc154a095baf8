"""Python functions called from programs: callbacks, prints, a debugger's prompt."""
