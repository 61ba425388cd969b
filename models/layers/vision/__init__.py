"""What image families share: the base class, and parts of convolutional nets and transformers."""
