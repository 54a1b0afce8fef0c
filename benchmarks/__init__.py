"""Speed against peers, measured side by side: ``python -m benchmarks`` (``make bench``)."""
