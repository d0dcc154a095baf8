"""Programs as bytes: flatbuffers, the schema of exported functions, pytrees in it, compiled programs as files."""
