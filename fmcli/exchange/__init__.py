"""Models of libFM, libffm and xLearn: reads them, and writes models that these programs read."""
