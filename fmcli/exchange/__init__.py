"""Models of libFM, libffm and xLearn: read, and written where these programs read them again."""
