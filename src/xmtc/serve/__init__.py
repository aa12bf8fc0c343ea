"""The HTTP server: `xmtc serve`. It needs the extra `serve` (fastapi, uvicorn, prometheus-client); nobody imports it.

`app.py` puts the parts together; a request passes `front.py` (ids, token, limits, logs), an API (`native_api.py`,
`annif_api.py`, `health.py`), and waits in `batching.py` for the one inference thread.
"""
