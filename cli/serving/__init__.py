"""The server of `rushlight serve`: one thread computes, an event loop talks to clients.

It needs Starlette and uvicorn: pip install 'rushlight[serve]'.
"""
