"""What things cost, each beside what one would do without this package: `make bench` runs them all."""
