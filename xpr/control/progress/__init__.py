"""Progress bars of loops."""
