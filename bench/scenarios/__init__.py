"""What is measured. `rounds` scenarios interleave the contestants; the others run once, at the end."""
