"""Image families: classification, features, detection, segmentation and depth."""
