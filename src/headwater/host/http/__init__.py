"""Requests over HTTP as resources: `hw.http.json`, `text`, `bytes`."""
