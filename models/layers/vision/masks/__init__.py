"""Parts of Segment Anything: its encoders of images and prompts, and the decoder of masks."""
