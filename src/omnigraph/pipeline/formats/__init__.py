"""The formats of loads and exports: JSON lines and CSV, as typed Arrow columns."""
