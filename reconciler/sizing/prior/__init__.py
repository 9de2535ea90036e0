"""What a model would do on an accelerator that it never ran on: a roofline, its measured errors, and refusals."""
