"""What Relaysite costs beside doing the same by hand: `python -m tests.bench`, or `make bench`."""
