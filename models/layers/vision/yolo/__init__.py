"""YOLO's blocks and heads, in Ultralytics' names."""
