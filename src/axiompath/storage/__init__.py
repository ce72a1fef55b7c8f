"""Files that may be damaged or hostile -> values, checked; and records -> files that are written atomically."""
