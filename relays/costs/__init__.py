"""What things cost, computed from stored calls and kept: comparisons, back-tests, roll-ups. Pages only read them."""
