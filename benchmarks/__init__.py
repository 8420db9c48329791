"""What the suite costs, side by side with what people would use instead: `python -m benchmarks [NAME ...]`."""
