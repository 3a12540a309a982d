"""Tests of transduce.text.phrases."""
