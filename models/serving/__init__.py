"""Serving: the HTTP interfaces of others as requests to models and back, without a server.

`cli/serving/` has the server. What is here opens no sockets and starts no threads.
"""
