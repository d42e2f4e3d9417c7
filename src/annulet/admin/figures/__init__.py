"""Figures for people and for Prometheus."""
