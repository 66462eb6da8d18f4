"""The one write protocol: staging, sidecars, effects, publishing, and recovery from any death."""
