"""The query engine: reads run in the caller's process, on Arrow and NumPy."""
