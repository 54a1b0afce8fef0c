"""Topologies over streams and tables, and the engines that run them."""
