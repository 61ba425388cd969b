"""Models of ONNX files in the hub's layout: folders that transformers.js and optimum write."""
